package race.engine;

/** The outcome of a call of the engine, or of one key of it. */
public enum Code {
  /** It succeeded. */
  OK,
  /** There is no such key, store or backup. */
  NOT_FOUND,
  /** Bytes differ from their checksum, or a store is damaged. */
  CORRUPTION,
  /** The library, the system or the store's format does not allow it. */
  NOT_SUPPORTED,
  /** An argument cannot be right, or the state of the store does not allow the call. */
  INVALID_ARGUMENT,
  /** The system refused a call, or another process has the store open. */
  IO_ERROR,
  /** The call was cancelled, or a store that is opened for reading needs a recovery that fails. */
  INCOMPLETE,
  /** A wait was given up. */
  TIMED_OUT,
  /** The disk, or a bucket of the store, has no room left. */
  FULL,
  /** Memory was refused. */
  OUT_OF_MEMORY,
  /** As many asynchronous reads are pending as the option {@code async_read_limit} allows. */
  BUSY,
  /** A code of a newer library than this package knows. */
  UNKNOWN;

  private static final Code[] CODES = values();

  /**
   * The code with a number of the C API.
   *
   * @param number as calls that read many put it into their arrays
   * @return {@link #UNKNOWN} for a number that has no code here
   */
  public static Code of(int number) {
    return number < 0 || number >= UNKNOWN.ordinal() ? UNKNOWN : CODES[number];
  }

  /**
   * The number of this code in the C API.
   *
   * @return 0 for {@link #OK}; -1 for {@link #UNKNOWN}, which has none
   */
  public int number() {
    return this == UNKNOWN ? -1 : ordinal();
  }
}

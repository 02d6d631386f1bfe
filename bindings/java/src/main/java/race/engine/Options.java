package race.engine;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Options of a store, by their names in {@code engine_race/base/options.h}, which describes them.
 * {@link #set(String, String)} sets any of them, and the others set common ones.
 *
 * <p>Geometry is written into a new store, and an existing one keeps its own: counts and sizes of
 * buckets, files and groups. A call that takes options does not change them, and sees no later
 * changes. One thread at a time may use them.
 */
public final class Options {
  /** From when on an acknowledged write outlives a power loss. */
  public enum SyncMode {
    /** Once a later {@link Store#sync()} has returned. */
    NONE,
    /** At once: each write is flushed by itself. */
    EVERY_WRITE,
    /** At once: writers that wait at one time share one flush. */
    GROUP
  }

  /** How many reads are kept in flight. */
  public enum IoBackend {
    /** The first of the others that works. */
    AUTO,
    /** io_uring. */
    IO_URING,
    /** Asynchronous I/O of Linux. */
    LIBAIO,
    /** Blocking reads by a few threads. */
    PSYNC
  }

  private final Map<String, String> values = new LinkedHashMap<>();
  private Consumer<LogMessage> log;

  /** The defaults. Sizes of values are checked, so any existing store may be opened. */
  public Options() {
    values.put("value_bytes", "0");
  }

  /**
   * The names of all options.
   *
   * @return names in the order of the header
   */
  public static List<String> names() {
    return Stream.of(Native.optionNames()).map(Texts::of).collect(Collectors.toUnmodifiableList());
  }

  /**
   * Sets an option from a text, such as {@code "2g"}, {@code "true"} or {@code "0700"}.
   *
   * @param name its name
   * @param value as {@code engine_race_options_set} of the C API takes it
   * @return these options
   * @throws IllegalArgumentException for an unknown name, and for a text that does not parse.
   *     Opening the store checks the ranges of values.
   */
  public Options set(String name, String value) {
    Objects.requireNonNull(value, "value");
    byte[] nameBytes = Texts.of(name, "the option's name");
    byte[] valueBytes = Texts.of(value, "the option " + name);
    try {
      Native.optionGet(new byte[][] {nameBytes, valueBytes}, nameBytes);
    } catch (EngineRaceException error) {
      throw new IllegalArgumentException(error.getMessage(), error);
    }
    values.put(name, value);
    return this;
  }

  /**
   * The value of an option, set or default.
   *
   * @param name its name
   * @return the text that {@link #set(String, String)} would take
   * @throws IllegalArgumentException for an unknown name
   */
  public String get(String name) {
    try {
      return Texts.of(Native.optionGet(pairs(), Texts.of(name, "the option's name")));
    } catch (EngineRaceException error) {
      throw new IllegalArgumentException(error.getMessage(), error);
    }
  }

  /**
   * Sets the memory that the store may take in all.
   *
   * @param bytes at least 16 MiB; the default is a quarter of what the process may use, and a
   *     sixteenth with {@link #readOnly}
   * @return these options
   */
  public Options memoryBudgetBytes(long bytes) {
    return set("memory_budget_bytes", Long.toString(bytes));
  }

  /**
   * Sets how much of the budget may hold values that are read again and again.
   *
   * @param bytes 0: every value is read from the disk; the default is what the rest leaves
   * @return these options
   */
  public Options hotValueBytes(long bytes) {
    return set("hot_value_bytes", Long.toString(bytes));
  }

  /**
   * Sets the size of every value. An existing store keeps its own: opening it with another one
   * fails.
   *
   * @param bytes 8 to 1048576; 0, the default: that of an existing store, and
   *     {@link Keys#VALUE_BYTES} for a new one
   * @return these options
   */
  public Options valueBytes(int bytes) {
    return set("value_bytes", Integer.toString(bytes));
  }

  /**
   * Sets the buckets of a new store, which are stretches of neighbouring keys.
   *
   * @param count a power of two, 1 to 65536, and at least the files; the default is 1024
   * @return these options
   */
  public Options bucketCount(int count) {
    return set("bucket_count", Integer.toString(count));
  }

  /**
   * Sets the key files of a new store, which has as many value files.
   *
   * @param count a power of two, 1 to 1024; the default is 32
   * @return these options
   */
  public Options fileCount(int count) {
    return set("file_count", Integer.toString(count));
  }

  /**
   * Sets where the values lie: directories or raw block devices, over which they are striped.
   *
   * @param paths at most 64; none, which is the default: in the store's own directory
   * @return these options
   */
  public Options paths(List<Path> paths) {
    return set("paths", paths.stream().map(Path::toString)
        .map(text -> text.replace("\\", "\\\\").replace(":", "\\:"))
        .collect(Collectors.joining(":")));
  }

  /**
   * Sets from when on an acknowledged write outlives a power loss. In every mode it outlives the
   * process, however that ends.
   *
   * @param mode the default is {@link SyncMode#NONE}
   * @return these options
   */
  public Options syncMode(SyncMode mode) {
    return set("sync_mode", textOf(mode));
  }

  /**
   * Sets how many reads are kept in flight.
   *
   * @param backend the default is {@link IoBackend#AUTO}
   * @return these options
   */
  public Options ioBackend(IoBackend backend) {
    return set("io_backend", textOf(backend));
  }

  /**
   * Opens an existing store for reading, beside any number of such openings and no writer.
   *
   * @param isOn the default is false
   * @return these options
   */
  public Options readOnly(boolean isOn) {
    return set("read_only", Boolean.toString(isOn));
  }

  /**
   * Reads a store beside its writer: see {@link Store#refresh}.
   *
   * @param isOn the default is false
   * @return these options
   */
  public Options follow(boolean isOn) {
    return set("follow", Boolean.toString(isOn));
  }

  /**
   * Makes a store where there is none.
   *
   * @param isOn the default is true; false: opening answers {@link Code#NOT_FOUND} there
   * @return these options
   */
  public Options createIfMissing(boolean isOn) {
    return set("create_if_missing", Boolean.toString(isOn));
  }

  /**
   * Compares each value that is read with its checksum.
   *
   * @param isOn the default is true
   * @return these options
   */
  public Options verifyChecksums(boolean isOn) {
    return set("verify_checksums", Boolean.toString(isOn));
  }

  /**
   * Measures how long calls take: see {@link Store#latencies()}.
   *
   * @param isOn the default is false
   * @return these options
   */
  public Options latencyStats(boolean isOn) {
    return set("latency_stats", Boolean.toString(isOn));
  }

  /**
   * Sets how many asynchronous reads may be pending. At that limit a further one waits.
   *
   * @param count up to 2^20; 0, the default: as many as the store's threads gain by
   * @return these options
   */
  public Options asyncReadLimit(int count) {
    return set("async_read_limit", Integer.toString(count));
  }

  /**
   * Sets who is given the log's messages: failures of calls, and what the system refuses.
   *
   * <p>Calls of the store hand them on, in the calling thread, when the engine has done its work.
   * The consumer may use the store. An exception that it throws goes to the handler of uncaught
   * exceptions of the thread. {@link Store#handLogOn()} is a call that does nothing else.
   *
   * @param consumer null, the default: nothing is logged
   * @return these options
   */
  public Options log(Consumer<LogMessage> consumer) {
    log = consumer;
    return this;
  }

  /**
   * Sends the log's messages to a logger: see {@link #log(Consumer)}.
   *
   * @param logger as of {@link System#getLogger}
   * @return these options
   */
  public Options log(System.Logger logger) {
    Objects.requireNonNull(logger, "logger");
    return log(message -> logger.log(message.level(), message.text()));
  }

  Log newLog() {
    return Log.of(log);
  }

  /** As the JNI library takes them. */
  byte[][] pairs() {
    return values.entrySet().stream()
        .flatMap(entry -> Stream.of(entry.getKey(), entry.getValue()))
        .map(text -> Texts.of(text, "an option"))
        .toArray(byte[][]::new);
  }

  private static String textOf(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT);
  }
}

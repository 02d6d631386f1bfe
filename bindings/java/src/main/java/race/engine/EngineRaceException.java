package race.engine;

import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * A call of the engine failed.
 *
 * <p>It is unchecked, so that visitors, iterators, streams and futures can carry it. Callers can
 * seldom do more than pass it on: a store whose disk fails stays as it is until it is opened again.
 */
public final class EngineRaceException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** By its number, which a stream of objects keeps as it is. */
  private final Code code;
  /** 0: no call of the system failed. */
  private final int errno;
  /** Empty: the failure is about no file. */
  private final String path;
  /** -1: the call is none of many records. */
  private final long doneCount;
  /** Null: the call gives none. A stream of objects leaves it out. */
  private final transient VerifyReport report;

  /** As the JNI library makes it. */
  EngineRaceException(int code, byte[] message, int errno, byte[] path) {
    this(Code.of(code), new String(message, StandardCharsets.UTF_8), errno, Texts.ofPath(path), -1,
        null, null);
  }

  /** Of a code for which the engine has no text. */
  EngineRaceException(Code code, String message) {
    this(code, message, 0, "", -1, null, null);
  }

  private EngineRaceException(
      Code code, String message, int errno, String path, long doneCount, VerifyReport report,
      Throwable cause) {
    super(message, cause);
    this.code = code;
    this.errno = errno;
    this.path = path;
    this.doneCount = doneCount;
    this.report = report;
  }

  EngineRaceException withDoneCount(long count) {
    return new EngineRaceException(code, super.getMessage(), errno, path, count, report, this);
  }

  EngineRaceException withReport(VerifyReport given) {
    return new EngineRaceException(code, super.getMessage(), errno, path, doneCount, given, this);
  }

  /** The code and the engine's text, as {@code FULL: the disk is full}. */
  @Override
  public String getMessage() {
    String text = super.getMessage();
    return text.isEmpty() ? code.name() : code + ": " + text;
  }

  /**
   * Why the call failed.
   *
   * @return never {@link Code#OK}
   */
  public Code code() {
    return code;
  }

  /**
   * The error number of the system call that failed, as 28 for ENOSPC.
   *
   * @return 0 where no such call has failed
   */
  public int errno() {
    return errno;
  }

  /**
   * The file or directory that the failure is about. It is absolute where an open file failed, else
   * as the program gave it.
   *
   * @return empty where it is about none
   */
  public Optional<String> path() {
    return path.isEmpty() ? Optional.empty() : Optional.of(path);
  }

  /**
   * How many records a call of many had written or deleted before it failed: the first ones.
   *
   * @return empty for other calls
   */
  public OptionalLong doneCount() {
    return doneCount < 0 ? OptionalLong.empty() : OptionalLong.of(doneCount);
  }

  /**
   * The counts of {@link ClosedStores#verify} and {@link ClosedStores#copy}, as far as they came.
   *
   * @return empty for other calls
   */
  public Optional<VerifyReport> report() {
    return Optional.ofNullable(report);
  }
}

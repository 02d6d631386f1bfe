package race.engine;

import java.nio.file.Path;

/** Calls for stores that nobody has open, and for backups. */
public final class ClosedStores {
  private ClosedStores() {}

  /**
   * Reads every record of a store and compares it with its checksums.
   *
   * @param directory of the store
   * @param options as for opening it
   * @param progress is told of the call; null: none
   * @return counts
   * @throws EngineRaceException of {@link Code#CORRUPTION} when something is bad. Its
   *     {@link EngineRaceException#report()} has the counts.
   */
  public static VerifyReport verify(Path directory, Options options, Progress progress) {
    byte[] from = Texts.of(directory, "the directory");
    return readStore(options, (pairs, queue, numbers) ->
        Native.verify(from, pairs, queue, numbers, progress));
  }

  /**
   * Verifies a store without options and progress.
   *
   * @param directory of the store
   * @return counts
   */
  public static VerifyReport verify(Path directory) {
    return verify(directory, new Options(), null);
  }

  /**
   * Copies a store and verifies it on the way.
   *
   * @param from the directory of the store
   * @param to a directory that is missing or empty
   * @param options as for opening the copy
   * @param progress is told of the call; null: none
   * @return counts
   * @throws EngineRaceException as of {@link #verify(Path, Options, Progress)}
   */
  public static VerifyReport copy(Path from, Path to, Options options, Progress progress) {
    byte[] source = Texts.of(from, "the directory");
    byte[] target = Texts.of(to, "the directory of the copy");
    return readStore(options, (pairs, queue, numbers) ->
        Native.copy(source, target, pairs, queue, numbers, progress));
  }

  /**
   * Copies a store without options and progress.
   *
   * @param from the directory of the store
   * @param to a directory that is missing or empty
   * @return counts
   */
  public static VerifyReport copy(Path from, Path to) {
    return copy(from, to, new Options(), null);
  }

  /**
   * Makes a store of a backup and its parents. All that is read is compared with its checksums.
   *
   * @param backup the directory of the backup
   * @param to a directory that is missing or empty
   * @param options as for opening the store
   * @param progress is told of the call; null: none
   * @return counts
   * @throws EngineRaceException of {@link Code#CORRUPTION} for a damaged or unfinished backup, of
   *     {@link Code#INVALID_ARGUMENT} for a missing or wrong parent, and of {@link Code#NOT_FOUND}
   */
  public static BackupReport restore(Path backup, Path to, Options options, Progress progress) {
    byte[] source = Texts.of(backup, "the backup");
    byte[] target = Texts.of(to, "the directory");
    return readBackup(options, (pairs, queue, numbers) ->
        Native.restore(source, target, pairs, queue, numbers, progress));
  }

  /**
   * Restores a backup without options and progress.
   *
   * @param backup the directory of the backup
   * @param to a directory that is missing or empty
   * @return counts
   */
  public static BackupReport restore(Path backup, Path to) {
    return restore(backup, to, new Options(), null);
  }

  /**
   * Reads all that a restore would read.
   *
   * @param backup the directory of the backup
   * @param options as for opening the store
   * @param progress is told of the call; null: none
   * @return counts
   * @throws EngineRaceException as of {@link #restore(Path, Path, Options, Progress)}
   */
  public static BackupReport verifyBackup(Path backup, Options options, Progress progress) {
    byte[] source = Texts.of(backup, "the backup");
    return readBackup(options, (pairs, queue, numbers) ->
        Native.verifyBackup(source, pairs, queue, numbers, progress));
  }

  /**
   * Verifies a backup without options and progress.
   *
   * @param backup the directory of the backup
   * @return counts
   */
  public static BackupReport verifyBackup(Path backup) {
    return verifyBackup(backup, new Options(), null);
  }

  /** A call of the JNI library that fills in the numbers of a report. */
  private interface Call {
    void run(byte[][] pairs, long logQueue, long[] numbers);
  }

  private static void run(Options options, long[] numbers, Call call) {
    Log log = options.newLog();
    try {
      call.run(options.pairs(), Log.queueOf(log), numbers);
    } finally {
      Log.handOn(log);
    }
  }

  private static VerifyReport readStore(Options options, Call call) {
    long[] numbers = new long[VerifyReport.NUMBERS];
    try {
      run(options, numbers, call);
    } catch (EngineRaceException error) {
      throw error.withReport(VerifyReport.of(numbers));
    }
    return VerifyReport.of(numbers);
  }

  private static BackupReport readBackup(Options options, Call call) {
    long[] numbers = new long[BackupReport.NUMBERS];
    run(options, numbers, call);
    return BackupReport.of(numbers);
  }
}

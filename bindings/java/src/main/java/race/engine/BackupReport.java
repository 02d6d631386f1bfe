package race.engine;

/**
 * The counts of a backup.
 *
 * @param recordCount live records at the moment of the backup
 * @param valueCount those whose values this backup holds itself
 * @param chainLength backups that a restore needs: 1 for a full one
 * @param sizeBytes bytes of the files of this backup
 */
public record BackupReport(long recordCount, long valueCount, long chainLength, long sizeBytes) {
  static final int NUMBERS = 4;

  static BackupReport of(long[] numbers) {
    return new BackupReport(numbers[0], numbers[1], numbers[2], numbers[3]);
  }
}

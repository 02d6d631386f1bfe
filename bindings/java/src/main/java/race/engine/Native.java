package race.engine;

import java.nio.ByteBuffer;

/**
 * The functions of the JNI library: one for each call of the C API, described in
 * {@code include/engine_race_c.h}.
 *
 * <p>They check nothing. Handles must be valid, buffers direct, and arrays long enough. Texts are
 * bytes without a 0. Each throws {@link EngineRaceException} where the call of the engine fails,
 * but for missing keys.
 */
final class Native {
  static final int TO_FIRST = 0;
  static final int TO_LAST = 1;
  static final int TO_KEY = 2;
  static final int BACK_TO_KEY = 3;
  static final int TO_NEXT = 4;
  static final int TO_PREVIOUS = 5;

  static {
    NativeLibrary.load();
  }

  private Native() {}

  static native byte[] version();

  static native byte[] codeName(int code);

  // Options and the log. Pairs are name, value, name, value and so on.

  static native byte[][] optionNames();

  static native byte[] optionGet(byte[][] pairs, byte[] name);

  static native long logQueueCreate(int mostMessages);

  static native void logQueueDestroy(long queue);

  static native ByteBuffer logQueueWaiting(long queue);

  static native byte[] logQueueTake(long queue, long[] levelAndTime);

  // Stores. A store's handle may be used after it was closed.

  static native long open(byte[] directory, byte[][] options, long logQueue);

  static native int valueBytes(long store);

  static native void close(long store);

  static native void write(long store, long key, ByteBuffer value, int offset);

  static native void writeArray(long store, long key, byte[] value, int offset, int size);

  static native void delete(long store, long key);

  static native boolean read(long store, long key, ByteBuffer target, int offset);

  static native boolean readArray(long store, long key, byte[] target, int offset, int size);

  static native void readMany(
      long store, long[] keys, int from, int count, ByteBuffer values, int offset, int[] codes,
      Progress progress);

  static native void writeMany(
      long store, long[] keys, int from, int count, ByteBuffer values, int offset, long[] done,
      Progress progress);

  static native void deleteMany(long store, long[] keys, long[] done, Progress progress);

  static native void writeBatch(long store, long batch);

  static native void sync(long store);

  static native void refresh(long store);

  static native void compact(long store, Progress progress);

  static native void checkpoint(long store, byte[] directory, Progress progress);

  static native void backup(
      long store, byte[] directory, byte[] since, long[] report, Progress progress);

  static native byte[][] statNames();

  static native int stats(long store, long[] values);

  static native int bucketSpace(long store, long[] liveBytes, long[] deadBytes);

  static native void latencies(long store, long[] numbers);

  static native byte[] property(long store, byte[] name);

  // Asynchronous reads.

  static native long endedReadsCreate();

  static native void readAsync(
      long endedReads, long store, long key, long number, ByteBuffer target, int offset,
      int valueBytes);

  static native int endedReadsTake(
      long endedReads, long[] numbers, int[] codes, ByteBuffer values);

  // Batches.

  static native long batchCreate(int valueBytes);

  static native void batchDestroy(long batch);

  static native void batchWrite(long batch, long key, ByteBuffer value, int offset);

  static native void batchWriteArray(long batch, long key, byte[] value, int offset, int size);

  static native void batchWriteMany(
      long batch, long[] keys, int from, int count, ByteBuffer values, int offset);

  static native void batchDelete(long batch, long key);

  static native void batchReserve(long batch, long writeCount, long deleteCount);

  static native void batchClear(long batch);

  static native long batchSize(long batch);

  // Snapshots and ranges. A range of a snapshot has no store, and one of a store no snapshot.

  static native long snapshotTake(long store);

  static native void snapshotRelease(long snapshot);

  static native boolean snapshotRead(long snapshot, long key, ByteBuffer target, int offset);

  static native boolean snapshotReadArray(
      long snapshot, long key, byte[] target, int offset, int size);

  static native void snapshotReadMany(
      long snapshot, long[] keys, int from, int count, ByteBuffer values, int offset, int[] codes,
      Progress progress);

  static native void range(
      long store, long snapshot, boolean hasLower, long lower, boolean hasUpper, long upper,
      Walk walk, ByteBuffer block, int roomRecords, int valueBytes, int keysOffset);

  // Iterators.

  static native long iteratorCreate(
      long store, long snapshot, boolean hasLower, long lower, boolean hasUpper, long upper,
      int prefetchRecords, long refreshEverySteps);

  static native void iteratorDestroy(long iterator);

  static native boolean iteratorMove(long iterator, int move, long key);

  static native boolean iteratorValid(long iterator);

  static native long iteratorKey(long iterator);

  static native boolean iteratorValue(long iterator, ByteBuffer target, int offset, int size);

  static native boolean iteratorValueArray(long iterator, byte[] target, int offset, int size);

  static native int iteratorTake(
      long iterator, int count, long[] keys, int from, ByteBuffer values, int offset);

  static native void iteratorRefresh(long iterator);

  // Closed stores and backups.

  static native void verify(
      byte[] directory, byte[][] options, long logQueue, long[] report, Progress progress);

  static native void copy(
      byte[] from, byte[] to, byte[][] options, long logQueue, long[] report, Progress progress);

  static native void verifyBackup(
      byte[] backup, byte[][] options, long logQueue, long[] report, Progress progress);

  static native void restore(
      byte[] backup, byte[] to, byte[][] options, long logQueue, long[] report,
      Progress progress);
}

package race.engine;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * An open store. Any number of threads may use it at once, also while one of them closes it.
 *
 * <p>A write that has returned outlives the process, however that ends. Whether it outlives a power
 * loss depends on {@link Options#syncMode}.
 *
 * <p>Calls of a closed store throw {@link IllegalStateException}. A store that is dropped without
 * being closed is closed at some time by the garbage collector.
 */
public final class Store extends OpenStore implements AutoCloseable {
  private final Path directory;

  private Store(Path directory, Options options) {
    super(directory, options);
    this.directory = directory;
  }

  /**
   * Opens a store, which is made where it is missing.
   *
   * @param directory of the store
   * @return the store, to be closed
   */
  public static Store open(Path directory) {
    return open(directory, new Options());
  }

  /**
   * Opens a store.
   *
   * @param directory of the store
   * @param options are read by this call alone
   * @return the store, to be closed
   * @throws EngineRaceException of {@link Code#IO_ERROR} when another opener has the store. Of
   *     {@link Code#NOT_FOUND} where there is none, if none is to be made. Of
   *     {@link Code#INCOMPLETE} if it is opened for reading and needs a recovery that fails.
   */
  public static Store open(Path directory, Options options) {
    return new Store(directory, options);
  }

  /**
   * The version of the engine's library.
   *
   * @return as {@code "0.9.0"}
   */
  public static String libraryVersion() {
    return Texts.of(Native.version());
  }

  /**
   * The directory of the store.
   *
   * @return as it was given
   */
  public Path directory() {
    return directory;
  }

  @Override
  public StoreIterator iterator(IteratorOptions options) {
    Objects.requireNonNull(options, "options");
    return answer(() -> new StoreIterator(this, 0, options));
  }

  /**
   * Writes a record.
   *
   * @param key a number without a sign
   * @param value its {@link #valueBytes()}
   */
  public void write(long key, byte[] value) {
    Buffers.checkSource(value, valueBytes());
    writeArray(key, value, 0);
  }

  /**
   * Writes a record.
   *
   * @param key a number without a sign
   * @param source an array with the value in it
   * @param offset where it begins
   */
  public void write(long key, byte[] source, int offset) {
    Buffers.checkRow(source, offset, valueBytes());
    writeArray(key, source, offset);
  }

  /**
   * Writes a record from a buffer. Bytes of a direct buffer are not copied by this package, and may
   * not change meanwhile.
   *
   * @param key a number without a sign
   * @param value has {@link #valueBytes()} remaining; its position stays
   */
  public void write(long key, ByteBuffer value) {
    Buffers.checkSource(value, 1, valueBytes());
    if (!value.isDirect()) {
      writeArray(key, Buffers.copyOf(value), 0);
      return;
    }
    try {
      Native.write(address, key, value, value.position());
    } catch (EngineRaceException error) {
      throw explained(error);
    } finally {
      afterwards();
    }
  }

  private void writeArray(long key, byte[] source, int offset) {
    try {
      Native.writeArray(address, key, source, offset, valueBytes());
    } catch (EngineRaceException error) {
      throw explained(error);
    } finally {
      afterwards();
    }
  }

  /**
   * Writes a batch: all of its entries, or none.
   *
   * @param batch has values of this store's size. It may be written again, and changed, afterwards.
   */
  public void write(Batch batch) {
    Objects.requireNonNull(batch, "batch");
    call(() -> batch.writeTo(address));
  }

  /**
   * Deletes a record. Deleting what is not there succeeds.
   *
   * @param key a number without a sign
   */
  public void delete(long key) {
    try {
      Native.delete(address, key);
    } catch (EngineRaceException error) {
      throw explained(error);
    } finally {
      afterwards();
    }
  }

  /**
   * Writes many records in order: see {@link #writeMany(long[], ByteBuffer, Progress)}.
   *
   * @param keys numbers without a sign
   * @param values the value of each key, one behind the other
   */
  public void writeMany(long[] keys, ByteBuffer values) {
    writeMany(keys, values, null);
  }

  /**
   * Writes many records in order, and stops at the first failure. A call is no batch: the records
   * before a failure stay, and {@link EngineRaceException#doneCount()} says how many these are.
   *
   * @param keys numbers without a sign
   * @param values has {@link #valueBytes()} remaining for each key; its position stays
   * @param progress is told of the call after each 256 records; null: none
   */
  public void writeMany(long[] keys, ByteBuffer values, Progress progress) {
    Buffers.checkSource(values, keys.length, valueBytes());
    if (values.isDirect()) {
      changeMany(0, done -> Native.writeMany(
          address, keys, 0, keys.length, values, values.position(), done, progress));
      return;
    }
    Pieces.ofHeap(keys.length, values, valueBytes(), (from, count, block) ->
        changeMany(from, done -> Native.writeMany(
            address, keys, from, count, block.memory, 0, done,
            Pieces.behind(from, keys.length, progress))));
  }

  /**
   * Deletes many records in order: see {@link #deleteMany(long[], Progress)}.
   *
   * @param keys numbers without a sign
   */
  public void deleteMany(long... keys) {
    deleteMany(keys, null);
  }

  /**
   * Deletes many records in order, and stops at the first failure, as {@link #writeMany} does.
   *
   * @param keys numbers without a sign
   * @param progress is told of the call after each 256 records; null: none
   */
  public void deleteMany(long[] keys, Progress progress) {
    changeMany(0, done -> Native.deleteMany(address, keys, done, progress));
  }

  /** A call of the engine that puts into done[0] how many records it has changed. */
  private interface Change {
    void run(long[] done);
  }

  private void changeMany(long doneBefore, Change change) {
    long[] done = new long[1];
    longCall(() -> {
      try {
        change.run(done);
      } catch (EngineRaceException error) {
        throw error.withDoneCount(doneBefore + done[0]);
      }
    });
  }

  /**
   * Starts a read. The future is completed in a task of {@link ForkJoinPool#commonPool()}.
   *
   * @param key a number without a sign
   * @return its value, null where the key is absent, or an exception
   */
  public CompletableFuture<byte[]> readAsync(long key) {
    return readAsync(key, ForkJoinPool.commonPool());
  }

  /**
   * Starts a read. At the limit of {@link Options#asyncReadLimit} this waits for another one to
   * end. A future that is cancelled ends nothing: the engine reads on, and the value is dropped.
   *
   * @param key a number without a sign
   * @param executor completes the future, in a task of its own. If it runs tasks at once, the one
   *     thread that completes all reads runs them: they may not wait for a read then.
   * @return its value, null where the key is absent, or an exception
   */
  public CompletableFuture<byte[]> readAsync(long key, Executor executor) {
    Objects.requireNonNull(executor, "executor");
    return answer(() -> AsyncReads.toArray(this, key, executor));
  }

  /**
   * Starts a read into a direct buffer, from its position on. The position stays.
   *
   * @param key a number without a sign
   * @param target direct, with {@link #valueBytes()} remaining at least; not to be used before the
   *     future has completed
   * @param executor as of {@link #readAsync(long, Executor)}
   * @return whether there is such a key, or an exception
   */
  public CompletableFuture<Boolean> readAsync(long key, ByteBuffer target, Executor executor) {
    Objects.requireNonNull(executor, "executor");
    Buffers.checkTarget(target, 1, valueBytes());
    if (!target.isDirect()) {
      throw new IllegalArgumentException("an asynchronous read needs a direct buffer");
    }
    return answer(() -> AsyncReads.toBuffer(this, key, target, executor));
  }

  /**
   * Takes a snapshot of the latest state.
   *
   * @return the snapshot, to be closed
   */
  public Snapshot snapshot() {
    return answer(() -> new Snapshot(this, Native.snapshotTake(address)));
  }

  /** Moves on to what the writer of a store with {@link Options#follow} has written. */
  public void refresh() {
    call(() -> Native.refresh(address));
  }

  /** Waits until all writes that were acknowledged before would outlive a power loss. */
  public void sync() {
    call(() -> Native.sync(address));
  }

  /**
   * Gives the space of overwritten and deleted records back at once, while other calls go on. A
   * thread of the store does so by itself, too.
   *
   * @param progress is told of the call; null: none
   */
  public void compact(Progress progress) {
    longCall(() -> Native.compact(address, progress));
  }

  /**
   * Makes a store of its own that has the state at one moment of this call. It shares blocks with
   * this store where the file system can.
   *
   * @param to a directory that is missing or empty
   * @param progress is told of the call; null: none
   */
  public void checkpoint(Path to, Progress progress) {
    byte[] target = Texts.of(to, "the directory");
    longCall(() -> Native.checkpoint(address, target, progress));
  }

  /**
   * Writes a backup while other calls go on.
   *
   * @param to a directory that is missing or empty
   * @param since an earlier backup: only what has changed since is written; null: everything
   * @param progress is told of the call; null: none
   * @return counts
   */
  public BackupReport backup(Path to, Path since, Progress progress) {
    byte[] target = Texts.of(to, "the directory");
    byte[] earlier = since == null ? null : Texts.of(since, "the earlier backup");
    long[] numbers = new long[BackupReport.NUMBERS];
    longCall(() -> Native.backup(address, target, earlier, numbers, progress));
    return BackupReport.of(numbers);
  }

  /**
   * The counters of the store, which {@code engine_race/store_stats.h} describes. Versions differ
   * in their counters.
   *
   * @return numbers by name, in the order of the engine
   */
  public Map<String, Long> stats() {
    byte[][] names = Native.statNames();
    long[] values = new long[names.length];
    int given = answer(() -> Native.stats(address, values));
    Map<String, Long> stats = new LinkedHashMap<>();
    for (int i = 0; i < given; i++) {
      stats.put(Texts.of(names[i]), values[i]);
    }
    return Collections.unmodifiableMap(stats);
  }

  /**
   * Space on disk that values take.
   *
   * @return bytes of each bucket, in order of key
   */
  public List<BucketSpace> bucketSpace() {
    // No store has more buckets.
    long[] live = new long[1 << 16];
    long[] dead = new long[live.length];
    int given = answer(() -> Native.bucketSpace(address, live, dead));
    return IntStream.range(0, given).mapToObj(i -> new BucketSpace(live[i], dead[i]))
        .collect(Collectors.toUnmodifiableList());
  }

  /**
   * How long calls took, where the option {@code latency_stats} is on.
   *
   * @return nanoseconds by kind of call
   */
  public Latencies latencies() {
    long[] numbers = new long[Latencies.NUMBERS];
    call(() -> Native.latencies(address, numbers));
    return Latencies.of(numbers);
  }

  /**
   * A text about the store: {@code io_backend}, {@code write_backend}, {@code key_range},
   * {@code stats} or {@code prometheus}.
   *
   * @param name which of them
   * @return the text
   * @throws EngineRaceException of {@link Code#INVALID_ARGUMENT} for another name
   */
  public String property(String name) {
    byte[] bytes = Texts.of(name, "the property's name");
    return answer(() -> Texts.of(Native.property(address, bytes)));
  }

  /** Gives the log's messages that wait to the consumer of {@link Options#log}. */
  public void handLogOn() {
    afterwards();
  }

  /**
   * Waits for calls that are under way and for reads that were started, and closes the store. Its
   * snapshots and iterators end with it. Closing it again does nothing, and does not wait for
   * another thread that closes it.
   *
   * @throws IllegalStateException in a visitor or a progress of this store: it would wait for
   *     itself
   */
  @Override
  public void close() {
    closeOnce();
  }
}

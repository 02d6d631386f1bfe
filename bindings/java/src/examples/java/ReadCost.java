import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import race.engine.KeyRange;
import race.engine.Keys;
import race.engine.Options;
import race.engine.Store;
import race.engine.StoreIterator;

/**
 * The CPU time of a read from Java: {@code ReadCost DIR READS} reads random keys of a store, in one
 * thread and into one buffer.
 *
 * <p>The first pass brings the values into memory and has the code compiled. The second one is
 * measured. {@code bindings/read_cost.c} reads the same keys in the same order from C.
 */
public final class ReadCost {
  private static final long SEED = 88172645463325252L;

  private ReadCost() {}

  /**
   * Prints a line of JSON.
   *
   * @param arguments the directory, and how many reads
   */
  public static void main(String[] arguments) {
    long readCount = Long.parseLong(arguments[1]);
    try (Store store = Store.open(Path.of(arguments[0]), new Options().createIfMissing(false))) {
      long[] keys = keysOf(store);
      // As arrays of C that are as large. A value that straddles cache lines takes longer to copy.
      ByteBuffer value = ByteBuffer.allocateDirect(store.valueBytes() + 128).alignedSlice(64);
      ThreadMXBean threads = ManagementFactory.getThreadMXBean();
      long warm = readAll(store, keys, readCount, value);
      long beforeNs = threads.getCurrentThreadCpuTime();
      long sum = readAll(store, keys, readCount, value);
      long cpuNs = threads.getCurrentThreadCpuTime() - beforeNs;
      if (warm != sum) {
        throw new IllegalStateException("the passes differ");
      }
      System.out.printf("{\"reads\": %d, \"cpu_ns_per_read\": %.1f}%n", readCount,
          (double) cpuNs / readCount);
    }
  }

  private static long[] keysOf(Store store) {
    long[] keys = new long[Math.toIntExact(store.count(KeyRange.ALL))];
    try (StoreIterator iterator = store.iterator(KeyRange.ALL)) {
      iterator.seekToFirst();
      iterator.takeKeys(keys);
    }
    return keys;
  }

  /** Answers the sum of one byte of each value. The order of keys comes from xorshift64. */
  private static long readAll(Store store, long[] keys, long readCount, ByteBuffer value) {
    long sum = 0;
    long state = SEED;
    for (long i = 0; i < readCount; i++) {
      state ^= state << 13;
      state ^= state >>> 7;
      state ^= state << 17;
      int place = (int) Long.remainderUnsigned(state, keys.length);
      if (store.read(keys[place], value)) {
        sum += Byte.toUnsignedInt(value.get(7));
      }
    }
    return sum;
  }
}

package race.engine;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;
import java.util.stream.Stream;

/** The calls that read, of a store and of a snapshot. Any number of threads may make them. */
public abstract sealed class Reader permits OpenStore, Snapshot {
  Reader() {}

  /**
   * The size of every value.
   *
   * @return bytes, as {@link Options#valueBytes} says
   */
  public abstract int valueBytes();

  abstract boolean readDirect(long key, ByteBuffer target, int offset);

  abstract boolean readArray(long key, byte[] target, int offset);

  abstract void readPiece(
      long[] keys, int from, int count, ByteBuffer values, int offset, int[] codes,
      Progress progress);

  abstract void walk(KeyRange range, Walk walk, Block block);

  /**
   * Opens an iterator.
   *
   * @param options how it walks
   * @return an iterator that stands at no record
   */
  public abstract StoreIterator iterator(IteratorOptions options);

  /**
   * Opens an iterator over a range, at the state of this call.
   *
   * @param range the keys that it shows
   * @return an iterator that stands at no record
   */
  public StoreIterator iterator(KeyRange range) {
    return iterator(IteratorOptions.of(range));
  }

  /**
   * Reads a value.
   *
   * @param key a number without a sign
   * @return its {@link #valueBytes()}, or null if there is no such key
   */
  public byte[] get(long key) {
    byte[] value = new byte[valueBytes()];
    return readArray(key, value, 0) ? value : null;
  }

  /**
   * Reads a value into an array, from its beginning on.
   *
   * @param key a number without a sign
   * @param target has room for the value at least; left as it is where the key is absent
   * @return whether there is such a key
   */
  public boolean read(long key, byte[] target) {
    return read(key, target, 0);
  }

  /**
   * Reads a value into an array.
   *
   * @param key a number without a sign
   * @param target left as it is where the key is absent
   * @param offset where the value begins
   * @return whether there is such a key
   */
  public boolean read(long key, byte[] target, int offset) {
    Buffers.checkRow(target, offset, valueBytes());
    return readArray(key, target, offset);
  }

  /**
   * Reads a value into a buffer, from its position on. The position stays, so the value begins
   * there. A direct buffer is filled by the engine itself, and nothing is allocated.
   *
   * @param key a number without a sign
   * @param target has as many bytes remaining at least; left as it is where the key is absent
   * @return whether there is such a key
   */
  public boolean read(long key, ByteBuffer target) {
    Buffers.checkTarget(target, 1, valueBytes());
    return target.isDirect()
        ? readDirect(key, target, target.position())
        : readArray(key, target.array(), target.arrayOffset() + target.position());
  }

  /**
   * Reads many values at once. A thousand keys a call keep a device busy.
   *
   * @param keys numbers without a sign
   * @return for each key its value, or null if there is no such key
   * @throws EngineRaceException also if one of the keys cannot be read
   */
  public byte[][] readMany(long... keys) {
    byte[][] found = new byte[keys.length][];
    int[] codes = new int[keys.length];
    Block block = Block.LARGE.take(valueBytes());
    try {
      for (int from = 0; from < keys.length; from += block.roomRecords) {
        int count = Math.min(block.roomRecords, keys.length - from);
        readPiece(keys, from, count, block.memory, 0, codes, null);
        for (int i = from; i < from + count; i++) {
          if (codes[i] == Code.OK.number()) {
            found[i] = block.copyOfRow(i - from);
          } else if (codes[i] != Code.NOT_FOUND.number()) {
            throw new EngineRaceException(
                Code.of(codes[i]), "key " + Long.toUnsignedString(keys[i]) + " cannot be read");
          }
        }
      }
    } finally {
      Block.LARGE.giveBack(block);
    }
    return found;
  }

  /**
   * Reads many values at once, each with a code of its own: see
   * {@link #readMany(long[], ByteBuffer, int[], Progress)}.
   *
   * @param keys numbers without a sign
   * @param values where the values go, one behind the other
   * @param codes where the codes go
   * @return how many keys have {@link Code#OK}
   */
  public int readMany(long[] keys, ByteBuffer values, int[] codes) {
    return readMany(keys, values, codes, null);
  }

  /**
   * Reads many values at once, each with a code of its own.
   *
   * <p>The value of {@code keys[i]} goes to the buffer's position plus {@code i * valueBytes()}.
   * {@code codes[i]} becomes the {@link Code#number()} of its outcome. For an absent key that is
   * {@link Code#NOT_FOUND}. The places of values that are not read keep their bytes. The position
   * stays as it is. A direct buffer is filled by the engine itself; others are filled in pieces of
   * up to 1024 values.
   *
   * @param keys numbers without a sign
   * @param values has a value's bytes remaining for each key at least
   * @param codes has a place for each key at least
   * @param progress is told of the call; null: none
   * @return how many keys have {@link Code#OK}
   * @throws EngineRaceException if nothing was read, or when the call is cancelled. Keys that were
   *     not read then have {@link Code#INCOMPLETE}.
   */
  public int readMany(long[] keys, ByteBuffer values, int[] codes, Progress progress) {
    Buffers.checkTarget(values, keys.length, valueBytes());
    if (codes.length < keys.length) {
      throw new IllegalArgumentException(
          keys.length + " keys need as many codes, and the array has " + codes.length);
    }
    Arrays.fill(codes, 0, keys.length, Code.INCOMPLETE.number());
    if (values.isDirect()) {
      readPiece(keys, 0, keys.length, values, values.position(), codes, progress);
    } else {
      readInPieces(keys, values, codes, progress);
    }
    int found = 0;
    for (int i = 0; i < keys.length; i++) {
      found += codes[i] == Code.OK.number() ? 1 : 0;
    }
    return found;
  }

  private void readInPieces(long[] keys, ByteBuffer values, int[] codes, Progress progress) {
    Block block = Block.LARGE.take(valueBytes());
    try {
      for (int from = 0; from < keys.length; from += block.roomRecords) {
        int count = Math.min(block.roomRecords, keys.length - from);
        readPiece(
            keys, from, count, block.memory, 0, codes, Pieces.behind(from, keys.length, progress));
        for (int i = from; i < from + count; i++) {
          if (codes[i] == Code.OK.number()) {
            int at = values.position() + i * block.valueBytes;
            values.put(at, block.memory, (i - from) * block.valueBytes, block.valueBytes);
          }
        }
      }
    } finally {
      Block.LARGE.giveBack(block);
    }
  }

  /**
   * Visits the records of a range in ascending order of key. It shows every write that was
   * acknowledged before the call. A few records behind the one that ends the walk may be read.
   *
   * @param <X> exceptions that the visitor may throw
   * @param range the keys to visit
   * @param visitor is called in this thread
   * @throws X if the visitor does
   */
  public <X extends Exception> void range(KeyRange range, RecordVisitor<X> visitor) throws X {
    Objects.requireNonNull(range, "range");
    Objects.requireNonNull(visitor, "visitor");
    Block block = Block.SMALL.take(valueBytes());
    Walk walk = new Walk(visitor, block);
    try {
      walk(range, walk, block);
    } finally {
      Block.SMALL.giveBack(block);
    }
    walk.<X>throwOutcome();
  }

  /**
   * The records of a range in ascending order of key, at the state of this call. The stream must be
   * closed, best by {@code try} with resources: it holds an iterator.
   *
   * @param range the keys to show
   * @return a sequential stream
   */
  public Stream<Entry> stream(KeyRange range) {
    StoreIterator iterator = iterator(range);
    return Entries.stream(iterator, true).onClose(iterator::close);
  }

  /**
   * The records of a range in descending order of key. It is otherwise as {@link #stream}.
   *
   * @param range the keys to show
   * @return a sequential stream
   */
  public Stream<Entry> descendingStream(KeyRange range) {
    StoreIterator iterator = iterator(range);
    return Entries.stream(iterator, false).onClose(iterator::close);
  }

  /**
   * Counts the records of a range. The engine keeps no count, so this walks over the keys.
   *
   * @param range the keys to count
   * @return how many have a record
   */
  public long count(KeyRange range) {
    long[] keys = new long[1024];
    try (StoreIterator iterator = iterator(range)) {
      iterator.seekToFirst();
      long count = 0;
      // Until none comes: a failure behind the first keys is thrown by the next call.
      for (int taken = iterator.takeKeys(keys); taken > 0; taken = iterator.takeKeys(keys)) {
        count += taken;
      }
      return count;
    }
  }
}

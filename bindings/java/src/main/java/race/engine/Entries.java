package race.engine;

import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * The records of an iterator as an iterator of Java. In ascending order it takes 1, 2, 4 and so on
 * up to 32 records in one call: a short walk reads little ahead.
 */
final class Entries implements Iterator<Entry> {
  private final StoreIterator iterator;
  private final boolean isAscending;
  private final long[] keys = new long[32];
  private final Entry[] ahead = new Entry[keys.length];
  private int next;
  private int count;
  private int takenAtOnce = 1;
  private boolean hasBegun;

  Entries(StoreIterator iterator, boolean isAscending) {
    this.iterator = iterator;
    this.isAscending = isAscending;
  }

  static Stream<Entry> stream(StoreIterator iterator, boolean isAscending) {
    int properties = Spliterator.ORDERED | Spliterator.DISTINCT | Spliterator.NONNULL;
    return StreamSupport.stream(
        Spliterators.spliteratorUnknownSize(new Entries(iterator, isAscending), properties),
        false);
  }

  @Override
  public boolean hasNext() {
    if (next == count) {
      // None, if the call throws.
      count = next = 0;
      count = isAscending ? takeAhead() : stepBack();
    }
    return next < count;
  }

  @Override
  public Entry next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    Entry entry = ahead[next];
    ahead[next++] = null;
    return entry;
  }

  private int takeAhead() {
    if (!hasBegun) {
      iterator.seekToFirst();
      hasBegun = true;
    }
    Block block = Block.SMALL.take(iterator.valueBytes());
    try {
      int taken = iterator.take(Math.min(takenAtOnce, block.roomRecords), keys, block);
      for (int i = 0; i < taken; i++) {
        ahead[i] = new Entry(keys[i], block.copyOfRow(i));
      }
      takenAtOnce = Math.min(2 * takenAtOnce, keys.length);
      return taken;
    } finally {
      Block.SMALL.giveBack(block);
    }
  }

  private int stepBack() {
    boolean isAtRecord = hasBegun ? iterator.previous() : iterator.seekToLast();
    hasBegun = true;
    if (!isAtRecord) {
      return 0;
    }
    ahead[0] = new Entry(iterator.key(), iterator.value());
    return 1;
  }
}

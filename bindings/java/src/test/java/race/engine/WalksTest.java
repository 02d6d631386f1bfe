package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static race.engine.Stores.valueOf;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class WalksTest {
  private static final long STEP = 10;
  private static final int COUNT = 150;
  @TempDir Path directory;
  private Store store;

  @BeforeEach
  void open() {
    store = Stores.open(directory.resolve("store"));
    Stores.fill(store, COUNT, STEP);
  }

  @AfterEach
  void close() {
    store.close();
  }

  private List<Long> keysOf(KeyRange range) {
    List<Long> keys = new ArrayList<>();
    store.range(range, (key, value) -> {
      Stores.checkValue(value, 0, key, 0);
      return keys.add(key);
    });
    return keys;
  }

  private static List<Long> steps(long from, long to) {
    return LongStream.range(from, to).map(i -> i * STEP).boxed().collect(Collectors.toList());
  }

  @Test
  void rangesHaveTheirBounds() {
    assertEquals(steps(0, COUNT), keysOf(KeyRange.ALL));
    assertEquals(steps(3, 70), keysOf(KeyRange.of(30, 700)));
    assertEquals(steps(4, 71), keysOf(KeyRange.of(31, 701)));
    assertEquals(steps(149, 150), keysOf(KeyRange.from(1481)));
    assertEquals(steps(0, 2), keysOf(KeyRange.below(20)));
    assertEquals(List.of(), keysOf(KeyRange.below(0)));
    assertEquals(List.of(), keysOf(KeyRange.of(30, 30)));
    assertEquals(List.of(), keysOf(KeyRange.of(40, 30)));
    assertEquals(COUNT, store.count(KeyRange.ALL));
    assertEquals(67, store.count(KeyRange.of(30, 700)));
  }

  @Test
  void theOrderHasNoSign() {
    store.write(Keys.MAX, valueOf(Keys.MAX));
    store.write(Long.MIN_VALUE, valueOf(Long.MIN_VALUE));
    List<Long> keys = keysOf(KeyRange.from(1490));
    assertEquals(List.of(1490L, Long.MIN_VALUE, Keys.MAX), keys);
    assertEquals(List.of(Keys.MAX), keysOf(KeyRange.from(Long.MIN_VALUE + 1)));
    try (Stream<Entry> entries = store.descendingStream(KeyRange.ALL)) {
      assertEquals(List.of(Keys.MAX, Long.MIN_VALUE, 1490L),
          entries.limit(3).map(Entry::key).collect(Collectors.toList()));
    }
  }

  @Test
  void aVisitorEndsItsWalk() {
    for (int last : new int[] {1, 2, 3, 4, 31, 32, 63, 64, 65, 149, 150, 151}) {
      List<Long> keys = new ArrayList<>();
      store.range(KeyRange.ALL, (key, value) -> {
        keys.add(key);
        return keys.size() < last;
      });
      assertEquals(steps(0, Math.min(last, COUNT)), keys);
    }
  }

  @Test
  void anExceptionOfAVisitorComesOut() {
    for (int last : new int[] {1, 2, 64, COUNT}) {
      IOException mine = new IOException("mine");
      List<Long> keys = new ArrayList<>();
      IOException found = assertThrows(IOException.class, () ->
          store.range(KeyRange.ALL, (key, value) -> {
            keys.add(key);
            if (keys.size() == last) {
              throw mine;
            }
            return true;
          }));
      assertSame(mine, found);
      assertEquals(last, keys.size());
    }
    try (Snapshot snapshot = store.snapshot()) {
      assertThrows(StackOverflowError.class, () ->
          snapshot.range(KeyRange.ALL, (key, value) -> recurse(0) > 0));
    }
    assertEquals(steps(0, COUNT), keysOf(KeyRange.ALL));
  }

  private static int recurse(int depth) {
    return recurse(depth + 1) + 1;
  }

  @Test
  void aVisitorMayUseTheStoreAndWalkAgain() {
    List<Long> inner = new ArrayList<>();
    store.range(KeyRange.below(1000), (key, value) -> {
      store.write(key, valueOf(key, 1));
      assertThrows(EngineRaceException.class, () -> store.property("none"));
      store.range(KeyRange.of(key, key + 1), (innerKey, innerValue) -> {
        Stores.checkValue(innerValue, 0, innerKey, 1);
        return inner.add(innerKey);
      });
      Stores.checkValue(value, 0, key, 0);
      return true;
    });
    assertEquals(steps(0, 100), inner);
  }

  @Test
  void aVisitorMayNotCloseItsStore() {
    assertThrows(IllegalStateException.class, () ->
        store.range(KeyRange.ALL, (key, value) -> {
          store.close();
          return true;
        }));
    try (Snapshot snapshot = store.snapshot()) {
      assertThrows(IllegalStateException.class, () ->
          snapshot.range(KeyRange.ALL, (key, value) -> {
            store.close();
            return true;
          }));
    }
    assertArrayEquals(valueOf(10), store.get(10));
  }

  @Test
  void aVisitorMayKeepItsBufferButNotWriteToIt() {
    List<ByteBuffer> kept = new ArrayList<>();
    store.range(KeyRange.ALL, (key, value) -> {
      assertTrue(value.isDirect() && value.isReadOnly());
      assertThrows(ReadOnlyBufferException.class, () -> value.put(0, (byte) 1));
      value.getLong();
      return kept.add(value);
    });
    store.close();
    for (ByteBuffer value : kept) {
      value.getLong(0);
    }
  }

  @Test
  void anIteratorSeeksAndSteps() {
    try (StoreIterator at = store.iterator(KeyRange.of(30, 700))) {
      assertFalse(at.isValid());
      assertThrows(NoSuchElementException.class, at::key);
      assertThrows(NoSuchElementException.class, at::value);
      assertFalse(at.next());
      assertTrue(at.seekToFirst());
      assertEquals(30, at.key());
      assertFalse(at.previous());
      assertTrue(at.seekToLast());
      assertEquals(690, at.key());
      assertArrayEquals(valueOf(690), at.value());
      assertTrue(at.previous());
      assertEquals(680, at.key());
      assertTrue(at.next());
      assertFalse(at.next());
      assertFalse(at.isValid());
      assertTrue(at.seek(41));
      assertEquals(50, at.key());
      assertTrue(at.seekForPrevious(49));
      assertEquals(40, at.key());
      assertTrue(at.seek(0));
      assertEquals(30, at.key());
      assertFalse(at.seek(Keys.MAX));
      assertTrue(at.seekForPrevious(Keys.MAX));
      ByteBuffer direct = ByteBuffer.allocateDirect(5000).position(3);
      at.value(direct);
      Stores.checkValue(direct, 3, 690, 0);
      ByteBuffer heap = ByteBuffer.allocate(5000).position(5);
      at.value(heap);
      Stores.checkValue(heap, 5, 690, 0);
      assertThrows(IllegalArgumentException.class, () -> at.value(ByteBuffer.allocate(4095)));
    }
  }

  @Test
  void anIteratorTakesRecords() {
    long[] keys = new long[40];
    for (boolean isDirect : new boolean[] {true, false}) {
      int size = 40 * 4096 + 2;
      ByteBuffer values =
          (isDirect ? ByteBuffer.allocateDirect(size) : ByteBuffer.allocate(size)).position(2);
      try (StoreIterator at = store.iterator(KeyRange.ALL)) {
        at.seek(25);
        for (int first = 3; first < COUNT; first += 40) {
          int taken = at.take(keys, values);
          assertEquals(Math.min(40, COUNT - first), taken);
          for (int i = 0; i < taken; i++) {
            assertEquals((first + i) * STEP, keys[i]);
            Stores.checkValue(values, 2 + i * 4096, keys[i], 0);
          }
        }
        assertFalse(at.isValid());
        assertEquals(0, at.take(keys, values));
        at.seekToFirst();
        assertEquals(40, at.takeKeys(keys));
        assertEquals(390, keys[39]);
        assertTrue(at.isValid());
        assertEquals(400, at.key());
        assertThrows(IllegalArgumentException.class, () -> at.take(new long[41], values));
      }
    }
  }

  @Test
  void anIteratorShowsOneStateUntilItIsRefreshed() {
    try (StoreIterator at = store.iterator(KeyRange.ALL)) {
      store.write(5, valueOf(5));
      at.seek(1);
      assertEquals(10, at.key());
      at.refresh();
      assertFalse(at.isValid());
      at.seek(1);
      assertEquals(5, at.key());
    }
    try (StoreIterator at = store.iterator(new IteratorOptions(KeyRange.ALL, 8, 1))) {
      at.seekToFirst();
      store.write(7, valueOf(7));
      at.next();
      at.next();
      assertEquals(7, at.key());
    }
    assertThrows(IllegalArgumentException.class, () -> new IteratorOptions(KeyRange.ALL, -1, 0));
    assertThrows(IllegalArgumentException.class, () -> new IteratorOptions(KeyRange.ALL, 65, 0));
    assertThrows(IllegalArgumentException.class, () -> new IteratorOptions(KeyRange.ALL, 0, -1));
  }

  @Test
  void streamsAndIteratorsOfJava() {
    try (Stream<Entry> entries = store.stream(KeyRange.of(30, 700))) {
      assertEquals(steps(3, 70), entries
          .peek(entry -> assertArrayEquals(valueOf(entry.key()), entry.value()))
          .map(Entry::key).collect(Collectors.toList()));
    }
    try (StoreIterator at = store.iterator(KeyRange.below(400))) {
      List<Long> keys = new ArrayList<>();
      at.ascending().forEachRemaining(entry -> keys.add(entry.key()));
      assertEquals(steps(0, 40), keys);
      Iterator<Entry> back = at.descending();
      for (int i = 39; i >= 0; i--) {
        Entry entry = back.next();
        assertEquals(i * STEP, entry.key());
        assertArrayEquals(valueOf(entry.key()), entry.value());
      }
      assertFalse(back.hasNext());
      assertThrows(NoSuchElementException.class, back::next);
    }
  }

  @Test
  void aStreamThatIsClosedHoldsNothing() {
    Stream<Entry> entries = store.stream(KeyRange.ALL);
    Iterator<Entry> iterator = entries.iterator();
    assertEquals(0, iterator.next().key());
    entries.close();
    assertThrows(IllegalStateException.class, () -> iterator.forEachRemaining(entry -> { }));
  }

  @Test
  void callsOfAClosedIteratorSaySo() {
    StoreIterator at = store.iterator(KeyRange.ALL);
    at.seekToFirst();
    StoreIterator other = store.iterator(KeyRange.ALL);
    other.seekToFirst();
    at.close();
    at.close();
    store.close();
    for (StoreIterator closed : List.of(at, other)) {
      for (Runnable call : List.<Runnable>of(
          closed::seekToFirst, closed::seekToLast, () -> closed.seek(1),
          () -> closed.seekForPrevious(1), closed::next, closed::previous, closed::isValid,
          closed::key, closed::value, closed::refresh, () -> closed.takeKeys(new long[1]),
          () -> closed.ascending().hasNext())) {
        assertThrows(IllegalStateException.class, call::run);
      }
      closed.close();
    }
  }
}

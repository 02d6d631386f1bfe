package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static race.engine.Stores.valueOf;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ManyTest {
  private static final int OK = Code.OK.number();
  private static final int ABSENT = Code.NOT_FOUND.number();
  @TempDir Path directory;
  private Store store;

  @BeforeEach
  void open() {
    store = Stores.open(directory.resolve("store"));
  }

  @AfterEach
  void close() {
    store.close();
  }

  @Test
  void missingKeysAreMarkedAndTheirPlacesKept() {
    for (boolean isDirect : new boolean[] {true, false}) {
      // Even keys are there. More than one piece of the heap.
      long[] all = LongStream.range(0, 2500).toArray();
      long[] even = LongStream.of(all).filter(key -> key % 2 == 0).toArray();
      store.writeMany(even, Stores.valuesOf(even, isDirect));
      int size = all.length * 4096 + 9;
      ByteBuffer values = isDirect ? ByteBuffer.allocateDirect(size) : ByteBuffer.allocate(size);
      while (values.hasRemaining()) {
        values.put((byte) 77);
      }
      values.position(9);
      int[] codes = new int[all.length + 1];
      codes[all.length] = -5;
      assertEquals(even.length, store.readMany(all, values, codes));
      assertEquals(9, values.position());
      assertEquals(-5, codes[all.length]);
      for (int i = 0; i < all.length; i++) {
        assertEquals(i % 2 == 0 ? OK : ABSENT, codes[i]);
        if (i % 2 == 0) {
          Stores.checkValue(values, 9 + i * 4096, i, 0);
        } else {
          assertEquals(77, values.get(9 + i * 4096));
          assertEquals(77, values.get(9 + i * 4096 + 4095));
        }
      }
      byte[][] found = store.readMany(all);
      for (int i = 0; i < all.length; i++) {
        if (i % 2 == 0) {
          assertArrayEquals(valueOf(i), found[i]);
        } else {
          assertNull(found[i]);
        }
      }
      store.deleteMany(even);
      assertEquals(0, store.count(KeyRange.ALL));
    }
  }

  @Test
  void noKeysAtAll() {
    assertEquals(0, store.readMany(new long[0], ByteBuffer.allocateDirect(0), new int[0]));
    assertEquals(0, store.readMany().length);
    store.writeMany(new long[0], ByteBuffer.allocate(0));
    store.deleteMany();
  }

  @Test
  void wrongSizesAreRefused() {
    long[] keys = {1, 2};
    for (int size : new int[] {0, 4096, 8191}) {
      assertThrows(IllegalArgumentException.class,
          () -> store.readMany(keys, ByteBuffer.allocateDirect(size), new int[2]));
      assertThrows(IllegalArgumentException.class,
          () -> store.writeMany(keys, ByteBuffer.allocateDirect(size)));
    }
    assertThrows(IllegalArgumentException.class,
        () -> store.writeMany(keys, ByteBuffer.allocate(8193)));
    assertThrows(IllegalArgumentException.class,
        () -> store.readMany(keys, ByteBuffer.allocateDirect(8192), new int[1]));
    assertEquals(0, store.count(KeyRange.ALL));
  }

  @Test
  void progressIsToldOfAllPieces() {
    long[] keys = LongStream.range(0, 2500).toArray();
    for (boolean isDirect : new boolean[] {true, false}) {
      List<Long> told = new ArrayList<>();
      Progress progress = (done, most) -> {
        assertEquals(keys.length, most);
        return told.add(done);
      };
      ByteBuffer values = Stores.valuesOf(keys, isDirect);
      store.writeMany(keys, values, progress);
      assertEquals(2500, told.get(told.size() - 1));
      assertEquals(256, told.get(0));
      assertTrue(isSorted(told));
      told.clear();
      store.readMany(keys, values, new int[keys.length], progress);
      assertEquals(2500, told.get(told.size() - 1));
      told.clear();
      store.deleteMany(keys, progress);
      assertEquals(10, told.size());
      assertTrue(isSorted(told));
    }
  }

  private static boolean isSorted(List<Long> numbers) {
    return numbers.stream().sorted().toList().equals(numbers);
  }

  @Test
  void progressCancels() {
    long[] keys = LongStream.range(0, 2500).toArray();
    for (boolean isDirect : new boolean[] {true, false}) {
      ByteBuffer values = Stores.valuesOf(keys, isDirect);
      EngineRaceException error = assertThrows(EngineRaceException.class,
          () -> store.writeMany(keys, values, (done, most) -> done < 1100));
      assertEquals(Code.INCOMPLETE, error.code());
      long done = error.doneCount().orElseThrow();
      assertTrue(done >= 1100 && done < 1100 + 256);
      assertEquals(done, store.count(KeyRange.ALL));
      error = assertThrows(EngineRaceException.class,
          () -> store.deleteMany(keys, (count, most) -> false));
      assertEquals(256, error.doneCount().orElseThrow());
      assertEquals(done - 256, store.count(KeyRange.ALL));
      int[] codes = new int[keys.length];
      error = assertThrows(EngineRaceException.class,
          () -> store.readMany(keys, values, codes, (count, most) -> false));
      assertEquals(Code.INCOMPLETE, error.code());
      assertTrue(error.doneCount().isEmpty());
      if (!isDirect) {
        assertEquals(Code.INCOMPLETE.number(), codes[keys.length - 1]);
      }
      store.deleteMany(keys);
    }
  }

  @Test
  void anExceptionOfAProgressComesOut() {
    long[] keys = LongStream.range(0, 600).toArray();
    ByteBuffer values = Stores.valuesOf(keys, true);
    RuntimeException mine = new RuntimeException("mine");
    Progress progress = (done, most) -> {
      assertThrows(EngineRaceException.class, () -> store.property("none"));
      throw mine;
    };
    assertSame(mine, assertThrows(RuntimeException.class,
        () -> store.writeMany(keys, values, progress)));
    assertEquals(256, store.count(KeyRange.ALL));
    assertSame(mine, assertThrows(RuntimeException.class,
        () -> store.readMany(keys, values, new int[600], progress)));
    assertSame(mine, assertThrows(RuntimeException.class,
        () -> store.deleteMany(keys, progress)));
    assertEquals(0, store.count(KeyRange.ALL));
    // No progress is left behind in the thread.
    store.writeMany(keys, values);
    assertEquals(600, store.count(KeyRange.ALL));
  }

  @Test
  void aProgressMayMakeLongCallsOfItsOwn() {
    long[] keys = LongStream.range(0, 600).toArray();
    ByteBuffer values = Stores.valuesOf(keys, true);
    List<Long> outer = new ArrayList<>();
    List<Long> inner = new ArrayList<>();
    store.writeMany(keys, values, (done, most) -> {
      store.deleteMany(new long[] {0}, (innerDone, innerMost) -> inner.add(innerDone));
      return outer.add(done);
    });
    assertEquals(List.of(256L, 512L, 600L), outer);
    assertEquals(List.of(1L, 1L, 1L), inner);
  }

  @Test
  void aProgressMayNotCloseItsStore() {
    long[] keys = {1};
    ByteBuffer values = Stores.valuesOf(keys, true);
    assertThrows(IllegalStateException.class, () -> store.writeMany(keys, values, (done, most) -> {
      store.close();
      return true;
    }));
    assertArrayEquals(valueOf(1), store.get(1));
  }

  @Test
  void codesOfAllAreSetWhereTheCallIsRefused() {
    long[] keys = {1, 2};
    int[] codes = {0, 0};
    store.close();
    assertThrows(IllegalStateException.class,
        () -> store.readMany(keys, ByteBuffer.allocateDirect(8192), codes));
    assertArrayEquals(new int[] {Code.INCOMPLETE.number(), Code.INCOMPLETE.number()}, codes);
  }
}

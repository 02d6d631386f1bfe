package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static race.engine.Stores.valueOf;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CopiesTest {
  private static final int COUNT = 500;
  @TempDir Path directory;
  private Path path;

  @BeforeEach
  void fill() {
    path = directory.resolve("store");
    try (Store store = Stores.open(path)) {
      Stores.fill(store, COUNT, 1);
    }
  }

  @Test
  void aCheckpointIsAStore() {
    Path copy = directory.resolve("checkpoint");
    try (Store store = Stores.open(path)) {
      store.checkpoint(copy, null);
      store.write(1, valueOf(1, 5));
      assertThrows(EngineRaceException.class, () -> store.checkpoint(copy, null));
    }
    try (Store store = Stores.open(copy)) {
      assertEquals(COUNT, store.count(KeyRange.ALL));
      assertArrayEquals(valueOf(1), store.get(1));
    }
  }

  @Test
  void backupsAreRestored() {
    Path full = directory.resolve("full");
    Path later = directory.resolve("later");
    List<Long> told = new ArrayList<>();
    try (Store store = Stores.open(path)) {
      BackupReport first = store.backup(full, null, (done, most) -> told.add(done));
      assertEquals(COUNT, first.recordCount());
      assertEquals(COUNT, first.valueCount());
      assertEquals(1, first.chainLength());
      assertTrue(first.sizeBytes() >= COUNT * 4096L);
      store.write(1, valueOf(1, 5));
      store.delete(2);
      BackupReport second = store.backup(later, full, null);
      assertEquals(COUNT - 1, second.recordCount());
      assertEquals(1, second.valueCount());
      assertEquals(2, second.chainLength());
    }
    assertEquals(COUNT, told.get(told.size() - 1));
    assertEquals(2, ClosedStores.verifyBackup(later).chainLength());
    Path restored = directory.resolve("restored");
    assertEquals(COUNT - 1, ClosedStores.restore(later, restored).recordCount());
    try (Store store = Stores.open(restored)) {
      assertArrayEquals(valueOf(1, 5), store.get(1));
      assertNull(store.get(2));
    }
    EngineRaceException error = assertThrows(EngineRaceException.class,
        () -> ClosedStores.restore(directory.resolve("none"), directory.resolve("other")));
    assertEquals(Code.NOT_FOUND, error.code());
  }

  @Test
  void storesAreVerifiedAndCopied() {
    VerifyReport report = ClosedStores.verify(path);
    assertEquals(COUNT, report.recordCount());
    assertEquals(0, report.badCount());
    assertEquals(0, report.lostTailCount());
    Path copy = directory.resolve("copy");
    assertEquals(COUNT, ClosedStores.copy(path, copy).recordCount());
    try (Store store = Stores.open(copy)) {
      assertArrayEquals(valueOf(COUNT - 1), store.get(COUNT - 1));
    }
  }

  @Test
  void longCallsAreCancelled() {
    Progress never = (done, most) -> false;
    try (Store store = Stores.open(path)) {
      for (Runnable call : List.<Runnable>of(
          () -> store.compact(never), () -> store.backup(directory.resolve("b"), null, never))) {
        EngineRaceException error = assertThrows(EngineRaceException.class, call::run);
        assertEquals(Code.INCOMPLETE, error.code());
      }
    }
    EngineRaceException error = assertThrows(EngineRaceException.class,
        () -> ClosedStores.verify(path, new Options(), never));
    assertEquals(Code.INCOMPLETE, error.code());
    assertTrue(error.report().isPresent());
    assertThrows(EngineRaceException.class,
        () -> ClosedStores.copy(path, directory.resolve("c"), new Options(), never));
    IllegalStateException mine = new IllegalStateException("mine");
    assertEquals(mine, assertThrows(IllegalStateException.class,
        () -> ClosedStores.verify(path, new Options(), (done, most) -> {
          throw mine;
        })));
  }

  @Test
  void pathsMayHaveAnyCharacters() {
    Path copy = directory.resolve("a copy: ü \\ 文 'x");
    ClosedStores.copy(path, copy);
    assertEquals(COUNT, ClosedStores.verify(copy).recordCount());
    assertThrows(RuntimeException.class, () -> Stores.open(Path.of("a\0b")));
  }
}

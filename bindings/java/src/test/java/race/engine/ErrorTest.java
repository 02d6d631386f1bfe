package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static race.engine.Stores.valueOf;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

class ErrorTest {
  private static final int ENOTDIR = 20;
  @TempDir Path directory;

  @Test
  void codesAreThoseOfTheLibrary() {
    assertEquals("kSucc", Texts.of(Native.codeName(Code.OK.number())));
    for (Code code : Code.values()) {
      if (code != Code.OK && code != Code.UNKNOWN) {
        String name = Texts.of(Native.codeName(code.number()));
        assertEquals("k" + code.name().replace("_", ""), "k" + name.substring(1).toUpperCase());
        assertEquals(code, Code.of(code.number()));
      }
    }
    assertEquals(Code.UNKNOWN, Code.of(-1));
    assertEquals(Code.UNKNOWN, Code.of(Code.UNKNOWN.ordinal()));
    assertEquals("unknown code", Texts.of(Native.codeName(Code.UNKNOWN.ordinal())));
  }

  @Test
  void theSystemsRefusalIsNamed() throws Exception {
    Path file = Files.createFile(directory.resolve("a file ü"));
    EngineRaceException error = assertThrows(EngineRaceException.class,
        () -> Stores.open(file.resolve("store")));
    assertEquals(Code.IO_ERROR, error.code());
    assertEquals(ENOTDIR, error.errno());
    assertTrue(error.path().orElseThrow().startsWith(file.toString()), error::toString);
    assertTrue(error.getMessage().startsWith("IO_ERROR: "), error::getMessage);
    assertTrue(error.doneCount().isEmpty() && error.report().isEmpty());
  }

  @Test
  void aSecondOpenerIsRefused() {
    Path path = directory.resolve("store");
    try (Store store = Stores.open(path)) {
      EngineRaceException error =
          assertThrows(EngineRaceException.class, () -> Stores.open(path));
      assertEquals(Code.IO_ERROR, error.code());
      store.write(1, valueOf(1));
    }
    try (Store first = Store.open(path, Stores.small().readOnly(true));
        Store second = Store.open(path, Stores.small().readOnly(true))) {
      assertArrayEquals(valueOf(1), first.get(1));
      assertArrayEquals(valueOf(1), second.get(1));
      EngineRaceException error =
          assertThrows(EngineRaceException.class, () -> first.write(1, valueOf(1)));
      assertEquals(Code.INVALID_ARGUMENT, error.code());
      assertFalse(error.getMessage().contains("closed"), error::getMessage);
    }
  }

  @Test
  void aStoreThatIsNotThere() {
    EngineRaceException error = assertThrows(EngineRaceException.class,
        () -> Store.open(directory.resolve("none"), Stores.small().createIfMissing(false)));
    assertEquals(Code.NOT_FOUND, error.code());
    assertFalse(Files.exists(directory.resolve("none")));
    assertThrows(NullPointerException.class, () -> Store.open(null));
  }

  @Test
  void aKeyOutsideTheRangeOfTheStore() {
    try (Store store =
        Store.open(directory.resolve("store"), Stores.small().set("key_range", "10-19"))) {
      store.write(10, valueOf(10));
      EngineRaceException error =
          assertThrows(EngineRaceException.class, () -> store.write(30, valueOf(30)));
      assertEquals(Code.INVALID_ARGUMENT, error.code());
      long[] keys = {11, 12, 30, 13};
      error = assertThrows(EngineRaceException.class,
          () -> store.writeMany(keys, Stores.valuesOf(keys, true)));
      assertEquals(2, error.doneCount().orElseThrow());
      assertEquals(3, store.count(KeyRange.ALL));
    }
  }

  @Test
  void aDamagedValueIsFound() throws Exception {
    Path path = directory.resolve("store");
    try (Store store = Stores.open(path)) {
      Stores.fill(store, 3000, 1);
      store.sync();
    }
    assertTrue(Damage.damage(path, valueOf(7)) > 0);
    try (Store store = Store.open(path, Stores.small().hotValueBytes(0))) {
      ByteBuffer memory = ByteBuffer.allocateDirect(4096);
      List<Long> visited = new ArrayList<>();
      for (Executable read : List.<Executable>of(
          () -> store.get(7), () -> store.read(7, memory), () -> store.readMany(6, 7),
          () -> store.range(KeyRange.ALL, (key, value) -> visited.add(key)),
          () -> store.stream(KeyRange.ALL).forEach(entry -> visited.add(entry.key())),
          () -> store.descendingStream(KeyRange.below(8)).toList())) {
        EngineRaceException error = assertThrows(EngineRaceException.class, read);
        assertEquals(Code.CORRUPTION, error.code());
      }
      // A failure keeps its text where the visitor causes others behind it.
      String text = assertThrows(EngineRaceException.class,
          () -> store.range(KeyRange.ALL, (key, value) -> true)).getMessage();
      assertEquals(text, assertThrows(EngineRaceException.class,
          () -> store.range(KeyRange.ALL, (key, value) -> {
            assertThrows(EngineRaceException.class, () -> store.property("none"));
            return true;
          })).getMessage());
      // Records before the damage are shown.
      assertEquals(LongStream.of(0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6).boxed().toList(),
          visited);
      ExecutionException late =
          assertThrows(ExecutionException.class, () -> store.readAsync(7).get());
      assertEquals(Code.CORRUPTION, ((EngineRaceException) late.getCause()).code());
      int[] codes = new int[3];
      assertEquals(1, store.readMany(
          new long[] {7, 8, 5000}, ByteBuffer.allocateDirect(3 * 4096), codes));
      assertArrayEquals(new int[] {Code.CORRUPTION.number(), 0, Code.NOT_FOUND.number()}, codes);
      try (StoreIterator at = store.iterator(KeyRange.from(7))) {
        assertTrue(at.seekToFirst());
        assertEquals(7, at.key());
        assertThrows(EngineRaceException.class, at::value);
        assertFalse(at.isValid());
      }
    }
    EngineRaceException error =
        assertThrows(EngineRaceException.class, () -> ClosedStores.verify(path));
    assertEquals(Code.CORRUPTION, error.code());
    assertTrue(error.report().orElseThrow().badCount() > 0);
    assertTrue(error.report().orElseThrow().recordCount() > 0);
  }

  @Test
  void exceptionsCanBeSent() throws Exception {
    EngineRaceException error = new EngineRaceException(
        Code.FULL.number(), "no room".getBytes(), 28, "/a/file".getBytes())
        .withDoneCount(3).withReport(new VerifyReport(1, 2, 3, 4, 5));
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    new ObjectOutputStream(bytes).writeObject(error);
    EngineRaceException other = (EngineRaceException) new ObjectInputStream(
        new ByteArrayInputStream(bytes.toByteArray())).readObject();
    assertEquals("FULL: no room", other.getMessage());
    assertEquals(Code.FULL, other.code());
    assertEquals(28, other.errno());
    assertEquals("/a/file", other.path().orElseThrow());
    assertEquals(3, other.doneCount().orElseThrow());
    assertEquals(new VerifyReport(1, 2, 3, 4, 5), error.report().orElseThrow());
    assertTrue(other.report().isEmpty());
  }
}

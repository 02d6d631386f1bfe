package race.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OptionsTest {
  @TempDir Path directory;

  @Test
  void eachSetterSetsItsOption() {
    Options options = new Options().memoryBudgetBytes(1L << 30).hotValueBytes(0).bucketCount(64)
        .fileCount(8).syncMode(Options.SyncMode.EVERY_WRITE)
        .ioBackend(Options.IoBackend.IO_URING).readOnly(true).createIfMissing(false)
        .verifyChecksums(false).latencyStats(true).asyncReadLimit(7).valueBytes(512)
        .paths(List.of(Path.of("/a:b"), Path.of("/c\\d")));
    assertEquals("1073741824", options.get("memory_budget_bytes"));
    assertEquals("0", options.get("hot_value_bytes"));
    assertEquals("64", options.get("bucket_count"));
    assertEquals("8", options.get("file_count"));
    assertEquals("every_write", options.get("sync_mode"));
    assertEquals("io_uring", options.get("io_backend"));
    assertEquals("true", options.get("read_only"));
    assertEquals("false", options.get("create_if_missing"));
    assertEquals("false", options.get("verify_checksums"));
    assertEquals("true", options.get("latency_stats"));
    assertEquals("7", options.get("async_read_limit"));
    assertEquals("512", options.get("value_bytes"));
    assertEquals("/a\\:b:/c\\\\d", options.get("paths"));
    for (Options.SyncMode mode : Options.SyncMode.values()) {
      options.syncMode(mode);
    }
    for (Options.IoBackend backend : Options.IoBackend.values()) {
      options.ioBackend(backend);
    }
  }

  @Test
  void everyNameHasADefaultThatCanBeSet() {
    assertTrue(Options.names().size() > 30);
    for (String name : Options.names()) {
      Options options = new Options();
      String value = options.get(name);
      assertEquals(value, options.set(name, value).get(name), name);
    }
  }

  @Test
  void wrongOptionsAreRefusedAtOnce() {
    Options options = new Options();
    for (String[] pair : new String[][] {
        {"no_such", "1"}, {"bucket_count", "many"}, {"read_only", "maybe"}, {"", ""},
        {"bucket_count", "1\0"}}) {
      assertThrows(IllegalArgumentException.class, () -> options.set(pair[0], pair[1]));
    }
    assertThrows(IllegalArgumentException.class, () -> options.get("no_such"));
    assertThrows(NullPointerException.class, () -> options.set("read_only", null));
    assertThrows(IllegalArgumentException.class, () -> options.bucketCount(-1));
    // Ranges are those of opening.
    EngineRaceException error = assertThrows(EngineRaceException.class,
        () -> Store.open(directory.resolve("store"), options.bucketCount(3)));
    assertEquals(Code.INVALID_ARGUMENT, error.code());
    assertTrue(error.getMessage().contains("bucket_count"), error::getMessage);
  }

  @Test
  void valuesLieWherePathsSay() throws Exception {
    Path one = directory.resolve("one:1");
    Path two = directory.resolve("two");
    try (Store store = Store.open(
        directory.resolve("store"), Stores.small().paths(List.of(one, two)))) {
      Stores.fill(store, 10, 1);
    }
    assertTrue(Files.isDirectory(one) && Files.isDirectory(two));
  }
}

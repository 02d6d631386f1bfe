package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static race.engine.Stores.valueOf;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KillTest {
  private static final int SIGKILL = 9;
  @TempDir Path directory;

  /** Writes records, and prints the number of each when its call has returned. */
  static final class Writer {
    public static void main(String[] arguments) {
      long round = Long.parseLong(arguments[1]);
      Store store = Stores.open(Path.of(arguments[0]));
      for (long key = 0; ; key++) {
        if (key % 10 == 9) {
          Batch batch = new Batch(Keys.VALUE_BYTES);
          batch.write(key, valueOf(key, round)).write(Keys.MAX - key, valueOf(key, round));
          store.write(batch);
        } else {
          store.write(key, valueOf(key, round));
        }
        System.out.println(key);
        if (System.out.checkError()) {
          return; // the parent has gone
        }
      }
    }
  }

  @Test
  void whatWasAcknowledgedOutlivesAKill() throws Exception {
    Path path = directory.resolve("store");
    for (long round = 1; round <= 4; round++) {
      Process child = new ProcessBuilder(
          Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
          System.getProperty("java.class.path"), Writer.class.getName(), path.toString(),
          Long.toString(round)).redirectError(ProcessBuilder.Redirect.INHERIT).start();
      long last = -1;
      try (BufferedReader lines =
          new BufferedReader(new InputStreamReader(child.getInputStream()))) {
        while (last < 700 * round) {
          String line = lines.readLine();
          assertNotNull(line, "the child has ended");
          last = Long.parseLong(line);
        }
        // Unlike that of the process itself, this leaves its output open.
        child.toHandle().destroyForcibly();
        assertEquals(128 + SIGKILL, child.waitFor());
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
          last = line.matches("\\d+") ? Math.max(last, Long.parseLong(line)) : last;
        }
      }
      // The last line may have been cut off, which makes its number less.
      try (Store store = Stores.open(path)) {
        for (long key = 0; key <= last; key++) {
          assertArrayEquals(valueOf(key, round), store.get(key));
          if (key % 10 == 9) {
            assertArrayEquals(valueOf(key, round), store.get(Keys.MAX - key));
          }
        }
        assertTrue(store.count(KeyRange.ALL) > last);
      }
    }
  }
}

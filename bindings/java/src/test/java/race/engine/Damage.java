package race.engine;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Damages values of a closed store. */
final class Damage {
  private Damage() {}

  /** Changes a value wherever a file of values has it; in how many places. */
  static int damage(Path store, byte[] value) throws IOException {
    List<Path> paths;
    try (Stream<Path> found = Files.walk(store)) {
      paths = found.filter(Files::isRegularFile)
          .filter(path -> path.getFileName().toString().contains("value"))
          .collect(Collectors.toList());
    }
    int count = 0;
    byte[] row = new byte[value.length];
    for (Path path : paths) {
      try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
        for (long at = 0; at + row.length <= file.length(); at += row.length) {
          file.seek(at);
          file.readFully(row);
          if (Arrays.equals(row, value)) {
            file.seek(at);
            file.write("damage".getBytes());
            count++;
          }
        }
      }
    }
    return count;
  }
}

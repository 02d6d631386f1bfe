package race.engine;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * Finds and loads the JNI library and the engine's, which lies beside it.
 *
 * <p>The first of these decides: the file that the system property {@value #PROPERTY} names, the
 * files in the jar, and {@code java.library.path}.
 */
final class NativeLibrary {
  static final String PROPERTY = "race.engine.library";
  private static final String NAME = "engine_race_jni";
  /** The engine comes first. The other one finds it in its own directory. */
  private static final String[] FILES = {"libengine_race.so.0", "libengine_race_jni.so"};

  private NativeLibrary() {}

  static void load() {
    String file = System.getProperty(PROPERTY);
    if (file != null) {
      System.load(Path.of(file).toAbsolutePath().toString());
    } else if (isInJar()) {
      loadFromJar();
    } else {
      System.loadLibrary(NAME);
    }
  }

  /** The folder in the jar with the files of this system. */
  private static String folder() {
    String arch = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
    String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
    return "native/" + system + "-" + (arch.equals("amd64") ? "x86_64" : arch) + "/";
  }

  private static boolean isInJar() {
    return NativeLibrary.class.getResource(folder() + FILES[1]) != null;
  }

  /** A loaded file stays mapped, so the copies are deleted at once. */
  private static void loadFromJar() {
    try {
      Path directory = Files.createTempDirectory("engine_race");
      try {
        for (String name : FILES) {
          try (InputStream content = NativeLibrary.class.getResourceAsStream(folder() + name)) {
            Files.copy(content, directory.resolve(name));
          }
        }
        System.load(directory.resolve(FILES[1]).toString());
      } finally {
        for (String name : FILES) {
          Files.deleteIfExists(directory.resolve(name));
        }
        Files.delete(directory);
      }
    } catch (IOException error) {
      throw new UncheckedIOException(
          "the native library could not be copied to java.io.tmpdir; the property " + PROPERTY
              + " may name it instead", error);
    }
  }
}

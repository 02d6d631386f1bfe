package race.engine;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Texts and paths as the bytes that the C API takes and gives. */
final class Texts {
  private static final Charset OF_PATHS = charsetOfPaths();

  private Texts() {}

  /** The encoding in which the JDK gives paths to the system. */
  private static Charset charsetOfPaths() {
    String name = System.getProperty("sun.jnu.encoding");
    return name != null && Charset.isSupported(name)
        ? Charset.forName(name) : StandardCharsets.UTF_8;
  }

  static byte[] of(String text, String what) {
    return encoded(text, StandardCharsets.UTF_8, what);
  }

  static byte[] of(Path path, String what) {
    return encoded(path.toString(), OF_PATHS, what);
  }

  static String of(byte[] text) {
    return new String(text, StandardCharsets.UTF_8);
  }

  static String ofPath(byte[] path) {
    return new String(path, OF_PATHS);
  }

  private static byte[] encoded(String text, Charset charset, String what) {
    if (text.indexOf('\0') >= 0) {
      throw new IllegalArgumentException(what + " has a NUL character in it");
    }
    try {
      ByteBuffer bytes = charset.newEncoder().encode(CharBuffer.wrap(text));
      byte[] copy = new byte[bytes.remaining()];
      bytes.get(copy);
      return copy;
    } catch (CharacterCodingException error) {
      throw new IllegalArgumentException(what + " cannot be written in " + charset, error);
    }
  }
}

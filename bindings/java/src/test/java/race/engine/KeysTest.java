package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class KeysTest {
  @Test
  void numbersAndBytesAreOneThing() {
    byte[] text = "8 bytes!".getBytes(StandardCharsets.US_ASCII);
    assertEquals(0x3820627974657321L, Keys.of(text));
    assertArrayEquals(text, Keys.toBytes(Keys.of(text)));
    assertEquals(-2, Keys.of(new byte[] {9, -1, -1, -1, -1, -1, -1, -1, -2, 9}, 1));
    for (long key : new long[] {0, 1, 255, 256, Long.MAX_VALUE, Long.MIN_VALUE, -1}) {
      assertEquals(key, Keys.of(Keys.toBytes(key)));
    }
  }

  @Test
  void otherLengthsAreRefused() {
    assertThrows(IllegalArgumentException.class, () -> Keys.of(new byte[7]));
    assertThrows(IllegalArgumentException.class, () -> Keys.of(new byte[9]));
    assertThrows(IndexOutOfBoundsException.class, () -> Keys.of(new byte[8], 1));
  }

  @Test
  void theOrderHasNoSign() {
    Long[] keys = {-1L, Long.MIN_VALUE, 0L, Long.MAX_VALUE, 1L};
    assertArrayEquals(new Long[] {0L, 1L, Long.MAX_VALUE, Long.MIN_VALUE, -1L},
        Stream.of(keys).sorted(Keys.ORDER).toArray());
    assertTrue(Keys.compare(Keys.MIN, Keys.MAX) < 0);
  }
}

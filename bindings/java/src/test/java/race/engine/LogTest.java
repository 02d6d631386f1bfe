package race.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static race.engine.Stores.valueOf;

import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.ResourceBundle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LogTest {
  @TempDir Path directory;

  /** A call that fails, which the engine logs. */
  private static void fail(Store store) {
    assertThrows(EngineRaceException.class, () -> store.property("none"));
    assertThrows(EngineRaceException.class, () -> store.checkpoint(Path.of("/dev/null/x"), null));
  }

  @Test
  void failuresAreHandedOnInTheCallingThread() {
    List<LogMessage> messages = new ArrayList<>();
    Thread mine = Thread.currentThread();
    Instant before = Instant.now();
    try (Store store = Store.open(directory.resolve("store"), Stores.small().log(message -> {
      assertSame(mine, Thread.currentThread());
      messages.add(message);
    }))) {
      messages.clear();
      fail(store);
      assertFalse(messages.isEmpty());
      store.handLogOn();
    }
    for (LogMessage message : messages) {
      assertTrue(message.time().isAfter(before.minusSeconds(1)));
      assertTrue(message.time().isBefore(Instant.now().plusSeconds(1)));
      assertFalse(message.text().isEmpty());
    }
    assertTrue(messages.stream().anyMatch(m -> m.level() == System.Logger.Level.ERROR
        || m.level() == System.Logger.Level.WARNING), messages::toString);
  }

  @Test
  void aConsumerMayUseTheStoreAndFail() {
    List<LogMessage> messages = new ArrayList<>();
    List<Throwable> uncaught = new ArrayList<>();
    Store[] opened = new Store[1];
    Thread mine = Thread.currentThread();
    Thread.UncaughtExceptionHandler kept = mine.getUncaughtExceptionHandler();
    mine.setUncaughtExceptionHandler((thread, error) -> uncaught.add(error));
    try (Store store = Store.open(directory.resolve("store"), Stores.small().log(message -> {
      if (opened[0] != null) {
        messages.add(message);
        fail(opened[0]);
        opened[0].write(messages.size(), valueOf(messages.size()));
        throw new IllegalStateException("mine");
      }
    }))) {
      opened[0] = store;
      fail(store);
      assertFalse(messages.isEmpty());
      assertEquals(messages.size(), uncaught.size());
      assertEquals("mine", uncaught.get(0).getMessage());
      assertEquals(messages.size(), store.count(KeyRange.ALL));
      opened[0] = null;
    } finally {
      mine.setUncaughtExceptionHandler(kept);
    }
  }

  @Test
  void messagesGoToALogger() {
    List<String> texts = new ArrayList<>();
    System.Logger logger = new System.Logger() {
      @Override
      public String getName() {
        return "test";
      }

      @Override
      public boolean isLoggable(Level level) {
        return true;
      }

      @Override
      public void log(Level level, ResourceBundle bundle, String text, Throwable thrown) {
        texts.add(text);
      }

      @Override
      public void log(Level level, ResourceBundle bundle, String format, Object... params) {
        texts.add(format);
      }
    };
    try (Store store = Store.open(directory.resolve("store"), Stores.small().log(logger))) {
      fail(store);
    }
    assertFalse(texts.isEmpty());
  }

  @Test
  void verificationsLogToo() throws Exception {
    Path path = directory.resolve("store");
    try (Store store = Stores.open(path)) {
      Stores.fill(store, 3000, 1);
    }
    Damage.damage(path, valueOf(7));
    List<LogMessage> messages = new ArrayList<>();
    assertThrows(EngineRaceException.class,
        () -> ClosedStores.verify(path, Stores.small().log(messages::add), null));
    assertFalse(messages.isEmpty());
  }
}

package race.engine;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * The log of a store. The engine's threads put messages into a queue of the C API. Calls of the
 * store take them from there and give them to the consumer, in the calling thread.
 *
 * <p>Messages are handed on when the call of the engine has ended, so the consumer may use the
 * store. One thread does so at a time; others go on without. An exception of the consumer goes to
 * the handler of uncaught exceptions of its thread, and fails no call.
 */
final class Log {
  private static final int MOST_MESSAGES = 1024;
  private static final System.Logger.Level[] LEVELS = {
    System.Logger.Level.INFO, System.Logger.Level.WARNING, System.Logger.Level.ERROR
  };

  private final Consumer<LogMessage> consumer;
  private final long queue;
  /** How many messages wait: memory of the queue. */
  private final ByteBuffer waiting;
  private final AtomicBoolean isHandingOn = new AtomicBoolean();

  private Log(Consumer<LogMessage> consumer) {
    this.consumer = consumer;
    long made = Native.logQueueCreate(MOST_MESSAGES);
    queue = made;
    Handle.CLEANER.register(this, () -> Native.logQueueDestroy(made));
    waiting = Native.logQueueWaiting(made).order(ByteOrder.nativeOrder());
  }

  /** Null for no consumer. */
  static Log of(Consumer<LogMessage> consumer) {
    return consumer == null ? null : new Log(consumer);
  }

  /** 0 for none. */
  static long queueOf(Log log) {
    return log == null ? 0 : log.queue;
  }

  /** Null is fine. */
  static void handOn(Log log) {
    if (log == null) {
      return;
    }
    if (log.waiting.getInt(0) != 0) {
      log.handOnAll();
    }
    Reference.reachabilityFence(log);
  }

  private void handOnAll() {
    if (!isHandingOn.compareAndSet(false, true)) {
      return;
    }
    try {
      long[] about = new long[2];
      // No more than wait now: the consumer may cause further ones.
      for (int count = waiting.getInt(0); count > 0; count--) {
        byte[] text = Native.logQueueTake(queue, about);
        if (text == null) {
          return;
        }
        giveToConsumer(about[0], about[1], text);
      }
    } finally {
      isHandingOn.set(false);
    }
  }

  private void giveToConsumer(long level, long timeNs, byte[] text) {
    try {
      consumer.accept(new LogMessage(
          LEVELS[(int) level], Instant.ofEpochSecond(0, timeNs), Texts.of(text)));
    } catch (Throwable error) {
      Thread thread = Thread.currentThread();
      try {
        thread.getUncaughtExceptionHandler().uncaughtException(thread, error);
      } catch (Throwable ignored) {
        // As the virtual machine does.
      }
    }
  }
}

package race.engine;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.LongConsumer;

/**
 * A native object that is freed once: when it is closed and no call uses it. So no call waits for
 * another one, and a visitor may close the snapshot that it walks over.
 *
 * <p>Calls are counted in stripes, so that threads which read one snapshot share no counter. A
 * thread enters and leaves by one stripe. Once it is closed, no further call gets the address. So a
 * stripe that is 0 has no user any more, and all may be looked at one after the other.
 */
final class Handle implements Runnable {
  static final Cleaner CLEANER = Cleaner.create();

  private static final int STRIPES = 8;
  /** Longs between two stripes: two cache lines, because CPUs fetch them in pairs. */
  private static final int STEP = 16;

  private final long address;
  private final LongConsumer free;
  private final String what;
  private final AtomicLongArray counts = new AtomicLongArray((STRIPES + 1) * STEP);
  private final AtomicBoolean isFreed = new AtomicBoolean();
  private volatile boolean isClosed;

  /**
   * Takes over a native object.
   *
   * @param free frees its address
   * @param what its name in texts, as "the snapshot"
   */
  Handle(long address, LongConsumer free, String what) {
    this.address = address;
    this.free = free;
    this.what = what;
  }

  /** The address, until {@link #leave}. */
  long enter() {
    int stripe = stripe();
    // It counts first and looks then: close() does both in the other order.
    counts.incrementAndGet(stripe);
    if (isClosed) {
      leave();
      throw closed();
    }
    return address;
  }

  void leave() {
    counts.decrementAndGet(stripe());
    if (isClosed) {
      freeIfUnused();
    }
  }

  boolean isClosed() {
    return isClosed;
  }

  void close() {
    isClosed = true;
    freeIfUnused();
  }

  /** For the cleaner, when nobody can use it any more. */
  @Override
  public void run() {
    close();
  }

  IllegalStateException closed() {
    return new IllegalStateException(what + " is closed");
  }

  private void freeIfUnused() {
    for (int i = 1; i <= STRIPES; i++) {
      if (counts.get(i * STEP) != 0) {
        return;
      }
    }
    if (isFreed.compareAndSet(false, true)) {
      free.accept(address);
    }
  }

  /** Of the calling thread, which keeps it. */
  private static int stripe() {
    return (1 + ((int) Thread.currentThread().getId() & STRIPES - 1)) * STEP;
  }
}

package race.engine;

import java.util.ArrayList;

/**
 * The stores whose calls run code of the program in this thread: visitors and progress. Such code
 * may not close its store, which would wait for itself.
 */
final class OwnCalls {
  private static final ThreadLocal<ArrayList<OpenStore>> STORES =
      ThreadLocal.withInitial(ArrayList::new);

  private OwnCalls() {}

  static void begin(OpenStore store) {
    STORES.get().add(store);
  }

  /** Ends the call that began last. */
  static void end() {
    ArrayList<OpenStore> stores = STORES.get();
    stores.remove(stores.size() - 1);
    if (stores.isEmpty()) {
      STORES.remove();
    }
  }

  static boolean include(OpenStore store) {
    for (OpenStore other : STORES.get()) {
      if (other == store) {
        return true;
      }
    }
    return false;
  }
}

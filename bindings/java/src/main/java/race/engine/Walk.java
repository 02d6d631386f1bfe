package race.engine;

/** A range that is under way. The JNI library fills its block and calls {@link #visitBlock}. */
final class Walk {
  private final RecordVisitor<?> visitor;
  private final Block block;
  private Throwable thrown;

  Walk(RecordVisitor<?> visitor, Block block) {
    this.visitor = visitor;
    this.block = block;
  }

  /** Visits the first records of the block. Whether the walk goes on. Throws nothing. */
  private boolean visitBlock(int count) {
    try {
      for (int i = 0; i < count; i++) {
        if (!visitor.visit(block.key(i), block.row(i))) {
          return false;
        }
      }
      return true;
    } catch (Throwable error) {
      thrown = error;
      return false;
    }
  }

  /** Throws what the visitor has thrown, which its type allows. */
  @SuppressWarnings("unchecked")
  <X extends Throwable> void throwOutcome() throws X {
    if (thrown != null) {
      throw (X) thrown;
    }
  }
}

package race.engine;

import java.nio.ByteBuffer;

/** Calls of many records of the heap, which are made as several ones of the engine. */
final class Pieces {
  private Pieces() {}

  /** Does a part of a call. */
  interface Piece {
    /** The values of {@code count} records, {@code from} and so on, are in the block. */
    void run(int from, int count, Block block);
  }

  /** Copies the values of a buffer into a block, piece by piece. */
  static void ofHeap(int mostCount, ByteBuffer values, int valueBytes, Piece piece) {
    Block block = Block.LARGE.take(valueBytes);
    try {
      for (int from = 0; from < mostCount; from += block.roomRecords) {
        int count = Math.min(block.roomRecords, mostCount - from);
        int at = values.position() + from * valueBytes;
        block.memory.put(0, values, at, count * valueBytes);
        piece.run(from, count, block);
      }
    } finally {
      Block.LARGE.giveBack(block);
    }
  }

  /** The progress of a piece, behind the records of earlier pieces. */
  static Progress behind(long doneBefore, long mostCount, Progress progress) {
    if (progress == null) {
      return null;
    }
    return (done, most) -> progress.advance(doneBefore + done, mostCount);
  }
}

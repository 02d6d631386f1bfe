package race.engine;

import java.time.Instant;

/**
 * A message of the engine's log.
 *
 * @param level INFO, WARNING or ERROR
 * @param time when the engine logged it
 * @param text one line, cut off where it is longer than 1023 bytes
 */
public record LogMessage(System.Logger.Level level, Instant time, String text) {}

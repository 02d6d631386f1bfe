package race.engine;

/**
 * A record: a key and its value. Two entries are equal if they have equal keys and one array, as
 * records of Java compare arrays.
 *
 * @param key a number without a sign
 * @param value its bytes, which belong to the receiver
 */
public record Entry(long key, byte[] value) {}

/**
 * A key-value storage engine: keys of 8 bytes, values of one size, in order of key.
 *
 * <p>{@link race.engine.Store} is where to start. A key is a {@code long} without a sign, which is
 * the number that its 8 bytes are, read big-endian: {@link race.engine.Keys} converts. Absent keys
 * are {@code null} or {@code false}; every other failure of the engine is an
 * {@link race.engine.EngineRaceException}.
 *
 * <p>Arguments that cannot be right are refused before the engine is called: null with
 * {@link java.lang.NullPointerException}, sizes with
 * {@link java.lang.IllegalArgumentException} or {@link java.lang.IndexOutOfBoundsException}. Calls
 * of a closed object throw {@link java.lang.IllegalStateException}.
 *
 * <p>Memory that is given to a call may not change while the call runs. A direct buffer that
 * another thread changes during a write may be stored with a checksum that does not fit. Arrays
 * and other buffers are copied first. A buffer of an arena needs its arena open until the call
 * ends: the virtual machine does not ensure that.
 */
package race.engine;

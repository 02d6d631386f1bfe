/** A key-value storage engine for 8-byte keys and 4096-byte values. */
module race.engine {
  exports race.engine;
}

/** A key-value storage engine for 8-byte keys and values of one size. */
module race.engine {
  exports race.engine;
}

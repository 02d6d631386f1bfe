//! Fills a store: `fill DIR COUNT` writes the keys 0 to COUNT - 1, and syncs.

use std::env;
use std::error::Error;

use engine_race::Store;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (directory, count) = match arguments.as_slice() {
        [directory, count] => (directory, count.parse::<u64>()?),
        _ => return Err("usage: fill DIR COUNT".into()),
    };
    let store = Store::open(directory)?;
    let mut value = vec![0; store.value_bytes()];
    for key in 0..count {
        value[..8].copy_from_slice(&key.to_be_bytes());
        store.write(key, &value)?;
    }
    store.sync()?;
    store.close()?;
    Ok(())
}

//! The CPU time of a read: `read_cost DIR READS` reads random keys of a store, in one thread.
//!
//! The first pass brings the values into memory. The second one is measured: user and system time
//! of the process. `bindings/read_cost.c` is the same loop over the C API, in the same order.

use std::env;
use std::error::Error;
use std::mem::MaybeUninit;
use std::os::raw::{c_int, c_long};

use engine_race::{Options, Result, Store};

const SEED: u64 = 88172645463325252;

/// `struct timeval` and `struct rusage` of Linux.
#[repr(C)]
struct Time {
    seconds: c_long,
    microseconds: c_long,
}

#[repr(C)]
struct Usage {
    user: Time,
    system: Time,
    others: [c_long; 14],
}

extern "C" {
    fn getrusage(of: c_int, usage: *mut Usage) -> c_int;
}

fn cpu_ns() -> i64 {
    const SELF: c_int = 0;
    let mut usage = MaybeUninit::<Usage>::uninit();
    // SAFETY: there is room for it, and the call fills it: it cannot fail with these arguments.
    let usage = unsafe {
        getrusage(SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: &Time| time.seconds * 1_000_000_000 + time.microseconds * 1000;
    ns(&usage.user) + ns(&usage.system)
}

/// The sum of the first bytes, so that no read can be left out.
fn read_all(store: &Store, keys: &[u64], read_count: u64) -> Result<u64> {
    // From malloc, as in C: the cost of a copy depends on where the memory lies.
    let mut value = vec![0; store.value_bytes()];
    let (mut state, mut sum) = (SEED, 0);
    for _ in 0..read_count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let key = keys[(state % keys.len() as u64) as usize];
        if store.read_into(key, &mut value)? {
            sum += u64::from(value[7]);
        }
    }
    Ok(sum)
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (directory, read_count) = match arguments.as_slice() {
        [directory, reads] => (directory, reads.parse::<u64>()?),
        _ => return Err("usage: read_cost DIR READS".into()),
    };
    let store = Options::new().create_if_missing(false).open(directory)?;
    let keys = store.keys(..)?.collect::<Result<Vec<u64>>>()?;
    if keys.is_empty() || read_count == 0 {
        return Err("there is nothing to read".into());
    }
    let warm = read_all(&store, &keys, read_count)?;
    let before = cpu_ns();
    let sum = read_all(&store, &keys, read_count)?;
    let spent = cpu_ns() - before;
    assert_eq!(warm, sum, "both passes read the same");
    let each = spent as f64 / read_count as f64;
    println!("{{\"reads\": {}, \"cpu_ns_per_read\": {:.1}}}", read_count, each);
    store.close()?;
    Ok(())
}

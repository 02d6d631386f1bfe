//! How far long calls are, and how to cancel them.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::os::raw::{c_int, c_void};
use std::ptr;

use crate::callbacks::Caught;
use crate::sys;

thread_local! {
    /// The function that this thread's calls tell of their progress; null: none.
    static CURRENT: Cell<Function> = const { Cell::new(Function::NONE) };
}

#[derive(Clone, Copy)]
struct Function {
    call: sys::engine_race_progress_fn,
    argument: *mut c_void,
}

impl Function {
    const NONE: Function = Function { call: None, argument: ptr::null_mut() };
}

struct State<F> {
    progress: F,
    caught: Caught,
}

/// Calls `call`. The long calls of the engine in it tell `progress` how far they are.
///
/// These are [`Store::compact`], [`Store::checkpoint`], [`Store::backup`], [`restore`], [`verify`],
/// [`verify_backup`], [`copy`], and calls for many keys. After each piece of their work
/// they call `progress` with how many records are done, and with a number that those do not exceed.
/// A piece is 4096 keys of a read, or 256 of a write. With [`ControlFlow::Break`] the call begins
/// no further piece, and fails with [`Code::Incomplete`], even if all is done by then.
///
/// It concerns this thread alone. Calls that `progress` makes have no such function, unless it sets
/// one. While [`Store::compact`] runs, it may not write to the store or compact it: that would wait
/// for itself. A panic of `progress` cancels the call, and goes on when `call` has returned.
///
/// ```
/// use std::ops::ControlFlow;
/// use engine_race::{with_progress, Code};
/// # let dir = std::env::temp_dir().join(format!("er_progress_{}", std::process::id()));
/// # let store = engine_race::Store::open(&dir)?;
///
/// let keys: Vec<u64> = (0..1000).collect();
/// let cancelled = with_progress(
///     |done, _most| if done < 512 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) },
///     || store.delete_many(&keys),
/// );
/// assert_eq!(cancelled.unwrap_err().error.code(), Code::Incomplete);
/// # drop(store);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # engine_race::Result::Ok(())
/// ```
///
/// [`Store::compact`]: crate::Store::compact
/// [`Store::checkpoint`]: crate::Store::checkpoint
/// [`Store::backup`]: crate::Store::backup
/// [`restore`]: crate::restore
/// [`verify`]: crate::verify
/// [`verify_backup`]: crate::verify_backup
/// [`copy`]: crate::copy
/// [`Code::Incomplete`]: crate::Code::Incomplete
pub fn with_progress<F, T>(progress: F, call: impl FnOnce() -> T) -> T
where
    F: FnMut(u64, u64) -> ControlFlow<()>,
{
    let mut state = State { progress, caught: Caught::default() };
    let answer = {
        let argument: *mut State<F> = &mut state;
        let _restored = Restored(CURRENT.with(Cell::get));
        set(Function { call: Some(told::<F>), argument: argument.cast() });
        call()
    };
    state.caught.resume();
    answer
}

/// Puts back the function of before, also when a panic leaves the call.
struct Restored(Function);

impl Drop for Restored {
    fn drop(&mut self) {
        set(self.0);
    }
}

fn set(function: Function) {
    CURRENT.with(|current| current.set(function));
    // SAFETY: `with_progress` keeps the argument until it sets the function of before again.
    unsafe { sys::engine_race_set_progress(function.call, function.argument) };
}

unsafe extern "C" fn told<F>(argument: *mut c_void, done_count: u64, most_count: u64) -> c_int
where
    F: FnMut(u64, u64) -> ControlFlow<()>,
{
    // The library has unset the function meanwhile. So nothing that `progress` does comes back here
    // while it runs, and the reference below is the only one.
    let own = CURRENT.with(|current| current.replace(Function::NONE));
    let state = &mut *argument.cast::<State<F>>();
    let State { progress, caught } = state;
    // A later call of a closure that has panicked is cancelled, too.
    let goes_on = !caught.is_any()
        && matches!(
            caught.run(|| progress(done_count, most_count)),
            Some(ControlFlow::Continue(()))
        );
    CURRENT.with(|current| current.set(own));
    c_int::from(!goes_on)
}

"""The JSON of bin/race: its phases become runs of one store, and fio's rates beside them limits."""
from .model import Fields, Run, rate_of, rates_of, why_no_number

STORE = "engine_race"


def device_rate(fields):
    """The mean of fio's bytes a second before and after the phase, as far as it ran."""
    rates = []
    for name in ("fio_before", "fio_after"):
        fio = fields.object(name)
        rate = fio.number("bytes_per_second")
        if rate and fio.flag("ok", False):
            rates.append(rate)
    return sum(rates) / len(rates) if rates else None


def read_phase(source, fields, config):
    """Adds a run for a phase, or for each pass of a range."""
    phase = fields.text("phase")
    engine = fields.object("engine")
    count = engine.number("record_count")
    if phase is None or count is None:
        source.note(fields.where, "has no name or no count of records; left out")
        return
    if not engine.flag("ok", True):
        # A phase that failed has figures of a part of its work, which say nothing.
        failure = engine.text("error") or "it gave no reason"
        source.note(fields.where, f"{phase}: failed: {failure}")
        source.runs.append(Run(STORE, phase, None, finished=False, failure=failure,
                               threads=config.number("threads")))
        return
    error = engine.text("error") if engine.value.get("error") else None
    if error:
        source.note(fields.where, f"{phase}: {error}")
    passes = []
    for i, seconds in enumerate(engine.list("pass_seconds", 16)):
        pass_fields = Fields(source, {"seconds": seconds}, f"{fields.where}.pass_seconds[{i}]")
        passes.append((f"{phase}, pass {i + 1}", pass_fields.number("seconds"),
                       fields.number(f"pass{i + 1}_bytes_per_second")))
    if not any(seconds for _, seconds, _ in passes):
        passes = [(phase, engine.number("seconds"), fields.number("bytes_per_second"))]
    device = device_rate(fields)
    for i, (name, seconds, bytes_per_s) in enumerate(passes):
        rate = rate_of(count, seconds)
        if rate is None:
            source.note(fields.where, f"{name}: has no rate; left out")
            continue
        run = Run(STORE, name, rate, operations=count, seconds=seconds,
                  threads=config.number("threads"))
        if bytes_per_s:
            run.bytes = bytes_per_s * seconds
            limit = run.rate * (device / bytes_per_s) if device else None
            if limit and not why_no_number(limit):
                source.phase_limits[name] = limit
        # The passes of a range share one process, so its CPU time belongs to none of them.
        if i == 0:
            run.rss_peak_bytes = engine.number("peak_rss_bytes")
        if len(passes) == 1:
            run.cpu_s = engine.number("cpu_seconds")
        for percentile in ("p50", "p99", "p999", "max", "mean"):
            value = engine.number(f"{percentile}_ns")
            if value:
                run.latency_ns[percentile] = value
        source.runs.append(run)


def read_race(source, fields):
    config = fields.object("config")
    for i, phase in enumerate(fields.list("phases", 1000)):
        read_phase(source, Fields(source, phase, f"phases[{i}]"), config)
    source.rates = rates_of(source.runs)
    if fields.flag("ok", True) is False:
        source.note("ok", "the race failed")

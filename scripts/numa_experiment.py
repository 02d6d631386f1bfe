#!/usr/bin/env python3
"""Measures on a machine with several NUMA nodes what text of its own is worth to each instance.

    scripts/numa_experiment.py --dirs D0,D1,D2,D3 [--groups 4] [--threads 32,64,128] [--rounds 5]
                               [--text shared,copies,remap] [--num N] [--json FILE]

For each number of threads the instances load their stores once. Then come the rounds: in each, one
race of reads mixed with writes for every way to have the text, one after the other, the page cache
dropped before each. The first round warms up and does not count. The table has the means of the
others: operations a second, mean and 99th percentile of latency, and how far apart the instances'
use of CPU is. Threads and operations are those of all instances together: what --threads asks for is
rounded down to as many for each instance, and the table has the number that ran.

Give each instance a disk of its own by --dirs, or one directory for all by --dir. Every round
appends half its operations to the stores, so the disks need room for all rounds.
"""

import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NUMA_RACE = os.path.join(ROOT, 'scripts', 'numa_race')


def numbers_of(text):
    """The numbers of a list as the kernel writes it: "0-3,8"."""
    numbers = set()
    for part in text.strip().split(','):
        if part:
            first, _, last = part.partition('-')
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def count_nodes(sysfs='/sys'):
    """The nodes with CPUs that this process may use; 1 where the kernel shows no nodes."""
    allowed = os.sched_getaffinity(0)
    count = 0
    for path in glob.glob(f'{sysfs}/devices/system/node/node[0-9]*/cpulist'):
        with open(path, encoding='ascii') as file:
            count += bool(numbers_of(file.read()) & allowed)
    return max(1, count)


def drop_page_cache():
    """Of the whole machine, as root; otherwise each instance drops that of its own store alone."""
    os.sync()
    try:
        with open('/proc/sys/vm/drop_caches', 'w', encoding='ascii') as control:
            control.write('3\n')
    except OSError:
        pass


def race(flags, threads, phases, text):
    """The figures of one race of all instances; ends the program when it fails.

    The threads are those of all instances, as many for each."""
    with tempfile.NamedTemporaryFile(suffix='.json') as figures:
        command = [NUMA_RACE, '--threads', str(threads // flags.instances),
                   '--num', str(max(1, flags.num // threads)), '--phases', phases, '--text', text,
                   '--json', figures.name]
        if flags.groups:
            command += ['--groups', str(flags.groups)]
        command += ['--dirs', flags.dirs] if flags.dirs else ['--dir', flags.dir]
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             check=False)
        if ran.returncode != 0:
            sys.exit(f'{" ".join(command)}\n{ran.stdout}')
        return json.load(figures)


def round_of(figures):
    """What one mixed race has shown."""
    phases = [instance['phases'][0] for instance in figures['instances']]
    operations = sum(phase['record_count'] for phase in phases)
    seconds = max(phase['seconds'] for phase in phases)
    busy = [phase['busy_cpus'] * 100 for phase in phases]
    return {'operations_per_second': operations / seconds,
            'latency_ms': sum(phase['mean_ns'] * phase['record_count'] for phase in phases)
                          / operations * 1e-6,
            'p99_ms': max(phase['p99_ns'] for phase in phases) * 1e-6,
            'cpu_percent': busy, 'cpu_spread_percent': max(busy) - min(busy),
            'code_local': figures['code_local'], 'anonymous_local': figures['anonymous_local']}


def mean_of(rounds):
    """The mean of the rounds that count."""
    def mean(name):
        return statistics.fmean(one[name] for one in rounds)
    return {'operations_per_second': mean('operations_per_second'),
            'latency_ms': mean('latency_ms'),
            'p99_ms': mean('p99_ms'), 'cpu_spread_percent': mean('cpu_spread_percent'),
            'code_local': rounds[-1]['code_local']}


def print_table(threads, means):
    print(f'\n{threads} threads\n{"text":8} {"ops/s":>12} {"over shared":>12} {"mean ms":>9} '
          f'{"P99 ms":>9} {"CPU spread %":>13} {"code local":>11}')
    base = means.get('shared', next(iter(means.values())))['operations_per_second']
    for text, mean in means.items():
        local = '-' if mean['code_local'] is None else f'{mean["code_local"]:.2f}'
        print(f'{text:8} {mean["operations_per_second"]:12.0f} '
              f'{mean["operations_per_second"] / base:12.2f} {mean["latency_ms"]:9.3f} '
              f'{mean["p99_ms"]:9.3f} {mean["cpu_spread_percent"]:13.0f} {local:>11}', flush=True)


def parse_flags():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=__doc__)
    parser.add_argument('--dir', help='a directory for all instances')
    parser.add_argument('--dirs', help='a directory for each instance, with commas between them')
    parser.add_argument('--groups', type=int, default=0,
                        help='instances, on groups of near nodes; by default one a node')
    parser.add_argument('--threads', default='32,64,128', help='of all instances together')
    parser.add_argument('--rounds', type=int, default=5, help='the first one does not count')
    parser.add_argument('--text', default='shared,copies,remap')
    parser.add_argument('--num', type=int, default=20_000_000,
                        help='records of all instances, and operations of a round')
    parser.add_argument('--json', help='where all rounds go')
    flags = parser.parse_args()
    if bool(flags.dir) == bool(flags.dirs):
        parser.error('one of --dir and --dirs is needed')
    if flags.rounds < 2:
        parser.error('two rounds at least: the first one does not count')
    if not set(flags.text.split(',')) <= {'shared', 'copies', 'remap'}:
        parser.error('--text takes shared, copies and remap')
    if flags.json:
        try:
            open(flags.json, 'a', encoding='utf-8').close()
        except OSError as error:
            parser.error(f'--json {flags.json}: {error.strerror}')
    return flags


def main():
    flags = parse_flags()
    texts = flags.text.split(',')
    thread_counts = [int(count) for count in flags.threads.split(',')]
    results = []
    flags.instances = flags.groups or count_nodes()
    for wished in thread_counts:
        threads = max(1, wished // flags.instances) * flags.instances
        loaded = race(flags, threads, 'write', texts[0])
        if len(loaded['instances']) != flags.instances:
            sys.exit(f"{len(loaded['instances'])} instances ran, not {flags.instances}")
        rounds = {text: [] for text in texts}
        for number in range(flags.rounds):
            for text in texts if number % 2 == 0 else texts[::-1]:
                drop_page_cache()
                rounds[text].append(round_of(race(flags, threads, 'mixed', text)))
                print(f'{threads} threads, round {number + 1}, {text}: '
                      f'{rounds[text][-1]["operations_per_second"]:.0f} ops/s', file=sys.stderr)
        means = {text: mean_of(ones[1:]) for text, ones in rounds.items()}
        print_table(threads, means)
        results.append({'threads': threads, 'rounds': rounds, 'means': means})
    if flags.json:
        with open(flags.json, 'w', encoding='utf-8') as file:
            json.dump({'instances': flags.instances, 'records': flags.num, 'results': results},
                      file, indent=2)


if __name__ == '__main__':
    main()

"""Stores in a guest that place their memory themselves: bin/race --numa, and where it put what.

numa_guest.py boots the guests and counts what holds. The race of a store runs without numactl and
begins with a policy that prefers node 0. So no memory lies on the store's nodes by chance.
"""

import json
import os

# The policy of memory that the store does not place.
UNPLACED = 'prefer:0'
LEAST_SHARE = 0.99
# Bounds of a node's share as a multiple of an equal part. A node that is left out has 0. A node
# that has everything has 2 or more. Staging chooses a node by the bucket, and chance decides how
# many buckets of a node have records.
PART_BOUNDS = (0.85, 1.2)
STAGED_PART_BOUNDS = (0.4, 1.8)
# Of the memory of a phase that is no file's: the rest is the race's own, and small arrays. Without
# the frames, or without the buffers of ranges, it is less.
LEAST_PLACED_SHARE = 0.75
MIN_STAGED_BYTES = 128 << 10


class StoreRace:
    """One race: the line that the guest runs, and where its memory and threads must be."""

    def __init__(self, name, numa, machine, phases, flags):
        """`machine` has the guest's numbers of nodes and CPUs; `flags` are more of bin/race."""
        nodes, cpus = machine
        self.name = name
        self.nodes = list(range(nodes))
        # None: memory is spread over all nodes.
        self.node = int(numa.split(':')[1]) if ':' in numa else None
        self.policy = numa if self.node is not None else f'interleave:0-{nodes - 1}'
        self.phases = phases
        # One bucket's staging lies on one node.
        self.is_staging_spread = 'onebucket' not in flags
        self.all_cpus = cpu_list(0, cpus)
        size = cpus // nodes
        # No device of the guest has a node, so that only binding moves the store's threads.
        self.own_cpus = (self.all_cpus if self.node is None
                         else cpu_list(self.node * size, size))
        self.line = f'{name} --numa {numa} --phases {",".join(phases)} --threads 2 {flags}'


def cpu_list(first, count):
    """As the kernel writes it."""
    return str(first) if count == 1 else f'{first}-{first + count - 1}'


def stores_of(nodes, cpus):
    if nodes < 2:
        return []
    # One bucket, so that values go to the logs and, when they are read often, to frames.
    phases = ('write', 'read', 'range')
    flags = '--keys onebucket --num 2000 --memory-limit 1G'
    machine = (nodes, cpus)
    return [StoreRace('store_bind', 'bind:1', machine, phases, flags),
            StoreRace('store_interleave', 'interleave', machine, phases, flags),
            # Many buckets, so that staging is spread.
            StoreRace('store_staging', 'interleave', machine, ('write',),
                      '--num 150 --memory-limit 64M')]


def reports_of(lines, name):
    """The reports of a store by phase, and the exit code of its race; None for what is not there."""
    reports = {}
    code = None
    for line in lines:
        words = line.split(' ', 3)
        if words[:2] == ['REPORT', name] and len(words) == 4:
            try:
                reports[words[2]] = json.loads(words[3])['processes'][0]
            except (IndexError, KeyError, TypeError, ValueError):
                reports[words[2]] = None
        elif words[:2] == ['END', name] and len(words) == 3 and words[2].isdigit():
            code = int(words[2])
    return reports, code


def bytes_of(groups):
    """Bytes by node of several groups of memory together."""
    by_node = {}
    for group in groups:
        for node, count in group['bytes_by_node'].items():
            by_node[int(node)] = by_node.get(int(node), 0) + count
    return by_node


def share_on(groups, nodes):
    """The share of the bytes of some groups of memory on the nodes; None of no bytes."""
    by_node = bytes_of(groups)
    every = sum(by_node.values())
    return sum(by_node.get(node, 0) for node in nodes) / every if every else None


def fault_of_place(store, groups, bounds):
    """Empty, or why memory does not lie where the store must have put it."""
    if not sum(bytes_of(groups).values()):
        return 'there is none'
    if store.node is not None:
        share = share_on(groups, [store.node])
        return '' if share >= LEAST_SHARE else f'{share:.4f} of it is on node {store.node}'
    parts = [share_on(groups, [node]) * len(store.nodes) for node in store.nodes]
    if bounds[0] <= min(parts) and max(parts) <= bounds[1]:
        return ''
    return 'of an equal part the nodes have ' + ', '.join(f'{part:.3f}' for part in parts)


def fault_of_threads(store, threads, least_own_count):
    """As above. The callers' threads have ended, but for the first one."""
    own_count = threads.get(store.own_cpus, 0) - (1 if store.own_cpus == store.all_cpus else 0)
    caller_count = sum(threads.values()) - own_count
    is_right = (own_count >= least_own_count and caller_count == 1
                and threads.get(store.all_cpus, 0) >= 1)
    return '' if is_right else f'by CPUs there are {threads}'


def faults_of_phase(store, phase, report):
    """Pairs: what must hold of a phase, and why it does not, or nothing."""
    policies = report['policies']
    placed = [policies[store.policy]] if store.policy in policies else []
    unplaced = [policies[UNPLACED]] if UNPLACED in policies else []
    yield ('the policies are those of the race and of its store',
           '' if {UNPLACED} <= set(policies) <= {store.policy, UNPLACED}
           else f'there are {sorted(policies)}')
    # Nothing but staging is placed before there are readers.
    if phase == 'write':
        yield from faults_of_staging(store, report)
    else:
        placed_bytes = sum(bytes_of(placed).values())
        every = sum(bytes_of(placed + unplaced).values())
        yield ('the store places its memory',
               '' if placed_bytes >= LEAST_PLACED_SHARE * every
               else f'{placed_bytes} of {every} bytes are placed')
        yield 'placed memory lies where it must', fault_of_place(store, placed, PART_BOUNDS)
    # A range has threads of the store that wait for the next one.
    yield ("the store's threads run where they must, and the caller's where it did",
           fault_of_threads(store, report['threads_by_cpus'], 1 if phase == 'range' else 0))


def faults_of_staging(store, report):
    """As faults_of_phase. Phases that only read map no pages of staging."""
    staged = [group for path, group in report['mapped_files'].items()
              if os.path.basename(path).startswith('staging_')]
    staged_bytes = sum(bytes_of(staged).values())
    yield ('pages of staging are mapped',
           '' if staged_bytes >= MIN_STAGED_BYTES else f'there are {staged_bytes} bytes')
    if store.node is not None or store.is_staging_spread:
        yield 'staging lies where it must', fault_of_place(store, staged, STAGED_PART_BOUNDS)


def check_store(judge, guest, store, lines):
    """Whether the memory and the threads of a store are where they must be."""
    what = f'{guest}, {store.name}'
    reports, code = reports_of(lines, store.name)
    judge.check(f'{what}: all phases verify', '' if code == 0 else f'the race ended with {code}')
    for phase in store.phases:
        report = reports.get(phase)
        judge.check(f'{what}, {phase}: there is a report', '' if report else 'it is missing')
        if not report:
            continue
        try:
            for claim, fault in faults_of_phase(store, phase, report):
                judge.check(f'{what}, {phase}: {claim}', fault)
        except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            judge.check(f'{what}, {phase}: the report can be read', repr(error))

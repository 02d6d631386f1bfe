#!/usr/bin/env python3
"""Tests the judge of scripts/numa_guest.py with made-up lines of guests."""

import json
import os
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'scripts'))
# pylint: disable=wrong-import-position
import numa_guest
import numa_guest_stores


def kind(node, count=1 << 20):
    return {'bytes': count, 'bytes_by_node': {str(node): count} if count else {}}


def figures(code_nodes, memory_nodes, count=1 << 20):
    """Of a race of two instances: the nodes that hold the text and the memory of each."""
    instances = []
    for number in range(2):
        place = {'code': kind(code_nodes[number], count),
                 **{name: kind(memory_nodes[number], count)
                    for name in ('heap', 'anonymous', 'stacks')}}
        instances.append({'number': number, 'memory_nodes': [number],
                          'phases': [{'phase': phase, 'placement': place}
                                     for phase in numa_guest.PHASES]})
    return {'instances': instances}


def lines_of(by_race, code=0):
    lines = []
    for name, value in by_race.items():
        text = value if isinstance(value, str) else json.dumps(value)
        lines += [f'FIGURES {name} {text}', f'END {name} {code}']
    return lines + ['DONE']


GOOD = {'shared': figures([0, 0], [0, 1]), 'copies': figures([0, 1], [0, 1]),
        'remap': figures([0, 1], [0, 1])}


class JudgeTest(unittest.TestCase):
    def judged(self, lines):
        judge = numa_guest.Judge()
        return judge, numa_guest.judge_guest(2, numa_guest.races_of(2), [], lines, judge)

    def test_a_good_guest_passes(self):
        judge, result = self.judged(lines_of(GOOD))
        self.assertEqual(judge.failed, 0)
        self.assertTrue(result['ok'])
        self.assertEqual(result['races']['copies']['code_local'], 1)
        self.assertEqual(result['races']['shared']['code_local_mean'], 0)

    def test_a_share_that_is_too_small_is_kept_and_fails(self):
        judge, result = self.judged(lines_of({**GOOD, 'copies': figures([0, 0], [0, 0])}))
        self.assertEqual(judge.failed, 2)
        self.assertTrue(result['ok'])
        self.assertEqual(result['races']['copies']['code_local'], 0)
        self.assertEqual(result['races']['copies']['anonymous_local'], 0)

    def test_shared_text_away_from_the_first_node_fails(self):
        judge, result = self.judged(lines_of({**GOOD, 'shared': figures([0, 1], [0, 1])}))
        self.assertEqual(judge.failed, 1)
        self.assertEqual(result['races']['shared']['code_local_mean'], 1)

    def test_what_cannot_be_read_is_a_failure_and_no_exception(self):
        for bad in ('{"instances": [', '[]', '7', '{}', '{"instances": []}',
                    '{"instances": [{}]}', figures([0, 1], [0, 1], count=0)):
            judge, result = self.judged(lines_of({**GOOD, 'copies': bad}))
            self.assertGreater(judge.failed, 0, bad)
            self.assertFalse(result['ok'], bad)
            self.assertNotIn('copies', result['races'])

    def test_a_guest_that_stops_early_is_not_ok(self):
        self.assertFalse(self.judged(lines_of(GOOD)[:-1])[1]['ok'])
        self.assertFalse(self.judged([])[1]['ok'])
        self.assertFalse(self.judged(lines_of(GOOD, code=1))[1]['ok'])
        self.assertFalse(self.judged(['END copies x', 'DONE'])[1]['ok'])


def spread(shares, count=64 << 20):
    return {'bytes_by_node': {str(node): int(count * share)
                              for node, share in enumerate(shares) if share}}


def report(policy, placed, staged, threads):
    """Of one phase; `placed` and `staged` are shares by node."""
    return {'policies': {policy: spread(placed), 'prefer:0': spread([.5, .5], count=1 << 20)},
            'mapped_files': {'/mnt/s/staging_values': spread(staged),
                             '/bin/race_static': spread([1])},
            'threads_by_cpus': threads}


class StoreJudgeTest(unittest.TestCase):
    """A guest with 2 nodes and 8 CPUs."""

    def setUp(self):
        self.bind, self.interleave, self.staging = numa_guest_stores.stores_of(2, 8)
        self.bound = {phase: report('bind:1', [0, 1], [0, 1], threads)
                      for phase, threads in (('write', {'0-7': 1}), ('read', {'0-7': 1}),
                                             ('range', {'0-7': 1, '4-7': 1}))}
        self.spread = {phase: report('interleave:0-1', [.5, .5], [1], {'0-7': count})
                       for phase, count in (('write', 1), ('read', 1), ('range', 2))}

    def faults(self, store, reports, code=0):
        lines = [f'REPORT {store.name} {phase} {json.dumps({"processes": [one]})}'
                 for phase, one in reports.items()] + [f'END {store.name} {code}']
        judge = numa_guest.Judge()
        numa_guest_stores.check_store(judge, '2 nodes', store, lines)
        return judge.failed

    def fault_with(self, store, reports, phase, **changes):
        """The faults when parts of one phase's report are others."""
        return self.faults(store, {**reports, phase: {**reports[phase], **changes}})

    def test_good_stores_pass(self):
        self.assertEqual(self.faults(self.bind, self.bound), 0)
        self.assertEqual(self.faults(self.interleave, self.spread), 0)
        staged = report('interleave:0-1', [.5, .5], [.6, .4], {'0-7': 1})
        self.assertEqual(self.faults(self.staging, {'write': staged}), 0)

    def test_lists_of_cpus_are_those_of_the_node(self):
        self.assertEqual(self.bind.own_cpus, '4-7')
        self.assertEqual(numa_guest_stores.stores_of(8, 8)[0].own_cpus, '1')
        self.assertEqual(numa_guest_stores.stores_of(8, 8)[1].own_cpus, '0-7')
        self.assertEqual(numa_guest_stores.stores_of(1, 8), [])

    def test_memory_on_another_node_fails(self):
        for placed in ([.02, .98], [1]):
            policies = {**self.bound['read']['policies'], 'bind:1': spread(placed)}
            self.assertEqual(self.fault_with(self.bind, self.bound, 'read', policies=policies), 1)
        policies = {**self.spread['read']['policies'], 'interleave:0-1': spread([.6, .4])}
        self.assertEqual(
            self.fault_with(self.interleave, self.spread, 'read', policies=policies), 1)

    def test_memory_that_is_not_placed_fails(self):
        for bad, count in (({'prefer:0': spread([1])}, 2),
                           ({'prefer:0': spread([1]), 'bind:1': spread([0, .5])}, 1)):
            self.assertEqual(self.fault_with(self.bind, self.bound, 'range', policies=bad), count)

    def test_a_policy_that_nothing_must_have_fails(self):
        for policy in ('bind:0', 'interleave:0-1', 'default'):
            policies = {**self.bound['read']['policies'], policy: spread([1], count=4096)}
            self.assertEqual(self.fault_with(self.bind, self.bound, 'read', policies=policies), 1)

    def test_a_race_without_its_policy_fails(self):
        policies = {'bind:1': spread([0, 1])}
        self.assertEqual(self.fault_with(self.bind, self.bound, 'read', policies=policies), 1)

    def test_staging_elsewhere_or_nowhere_fails(self):
        for files, count in (({'/mnt/s/staging_keys': spread([.1, .9])}, 1), ({}, 2),
                             ({'/mnt/s/staging_keys': spread([0, 1], count=4096)}, 1)):
            self.assertEqual(
                self.fault_with(self.bind, self.bound, 'write', mapped_files=files), count)
        staged = report('interleave:0-1', [.5, .5], [.85, .15], {'0-7': 1})
        self.assertEqual(self.faults(self.staging, {'write': staged}), 1)

    def test_threads_elsewhere_fail(self):
        for threads in ({'0-7': 2}, {'0-7': 1}, {'0-7': 2, '4-7': 1}, {'4-7': 2}, {},
                        {'0-7': 1, '4-7': 1, '0-3': 1}):
            self.assertEqual(self.fault_with(self.bind, self.bound, 'range',
                                             threads_by_cpus=threads), 1, threads)
        for threads in ({'0-7': 1}, {'0-7': 1, '4-7': 1}, {'0-3': 2}):
            self.assertEqual(self.fault_with(self.interleave, self.spread, 'range',
                                             threads_by_cpus=threads), 1, threads)

    def test_what_is_missing_or_cannot_be_read_fails(self):
        self.assertEqual(self.faults(self.bind, self.bound, code=1), 1)
        self.assertEqual(self.faults(self.bind, {'write': self.bound['write']}), 2)
        for bad in (None, 7, [], {}, {**self.bound['read'], 'policies': 7}):
            self.assertGreater(self.faults(self.bind, {**self.bound, 'read': bad}), 0, bad)
        judge = numa_guest.Judge()
        numa_guest_stores.check_store(
            judge, '2 nodes', self.bind,
            ['REPORT store_bind read {"proc', 'REPORT store_bind', 'END store_bind x'])
        self.assertEqual((judge.passed, judge.failed), (0, 4))


if __name__ == '__main__':
    unittest.main(buffer=True)

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
        return judge, numa_guest.judge_guest(2, numa_guest.races_of(2), lines, judge)

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


if __name__ == '__main__':
    unittest.main()

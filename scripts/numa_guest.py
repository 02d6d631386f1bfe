#!/usr/bin/env python3
"""Boots QEMU guests with 2, 4 and 8 NUMA nodes and runs races of bin/numa in them.

    scripts/numa_guest.py [--nodes 2,4,8] [--json FILE]

Each guest runs one instance per node (with 8 nodes also one per pair of near nodes) with one
shared program, with a copy for each instance, and with text that each instance moves to memory of
its own. Where code and memory lie is read from numa_maps inside the guest. A guest's speed says
nothing: its CPUs and the distances of its nodes are emulated. Guests with 2 and 8 nodes also run
stores that place their memory themselves, of which numa_guest_stores.py has more.

The last line is "N passed, N failed". Exit code 0 when nothing failed, 1 otherwise,
77 when this machine cannot run guests; then the last line begins with "skipped:".
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from numa_guest_stores import check_store, share_on, stores_of
from powercut_guest import (GUEST_DIR, ROOT, Guest, check_machine, disk_arguments, make_image,
                            make_initramfs, make_work_dir)

CPUS = 8
MEMORY_MIB = 1536
# Sparse here; the guests' stores use little of it.
FS_BYTES = 6 << 30
LIFE_SECONDS = 1200
PHASES = ('write', 'read', 'range')
RACE_FLAGS = '--threads 2 --num 150 --memory-limit 16M'
# Less would not be the program's text.
MIN_CODE_BYTES = 256 << 10
NEAR, FAR = 12, 20


class Race:
    """One race of a guest: its flags, and the groups of nodes that its instances must run on."""

    def __init__(self, text, nodes, groups):
        self.text = text
        self.name = text if groups == nodes else f'{text}_groups'
        size = nodes // groups
        self.groups = [list(range(first, first + size)) for first in range(0, nodes, size)]
        self.line = f'{self.name} --text {text} --groups {groups} {RACE_FLAGS}'


def races_of(nodes):
    races = [Race(text, nodes, nodes) for text in ('shared', 'copies', 'remap')]
    if nodes >= 8:
        races += [Race(text, nodes, nodes // 2) for text in ('shared', 'copies', 'remap')]
    return races


def machine(nodes):
    """QEMU's arguments: CPUs and memory in as many nodes; 0 and 1, 2 and 3, ... are near."""
    arguments = ['-m', str(MEMORY_MIB), '-smp', str(CPUS)]
    cpus = CPUS // nodes
    for node in range(nodes):
        arguments += ['-object',
                      f'memory-backend-ram,id=memory{node},size={MEMORY_MIB // nodes}M',
                      '-numa', f'node,nodeid={node},memdev=memory{node},'
                               f'cpus={node * cpus}-{node * cpus + cpus - 1}']
    for source in range(nodes):
        for target in range(nodes):
            if source != target:
                distance = NEAR if source // 2 == target // 2 else FAR
                arguments += ['-numa', f'dist,src={source},dst={target},val={distance}']
    return arguments


def libraries_of(program):
    """What a program of this system needs beside it, by the paths that it looks for them under."""
    listed = subprocess.run(['ldd', program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r'(/\S+) \(0x', listed)


def write_list(work_dir, name, runs):
    path = os.path.join(work_dir, name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(''.join(run.line + '\n' for run in runs))
    return path


def boot(nodes, races, stores, work_dir):
    """The guest's lines."""
    numactl = shutil.which('numactl')
    files = {'bin/numa': os.path.join(ROOT, 'bin', 'numa_static'),
             'bin/race_static': os.path.join(ROOT, 'bin', 'race_static'),
             'usr/bin/numactl': numactl, 'races': write_list(work_dir, 'races', races),
             'stores': write_list(work_dir, 'stores', stores),
             **{path: path for path in libraries_of(numactl)}}
    initramfs = os.path.join(work_dir, 'initramfs.gz')
    make_initramfs(os.path.join(GUEST_DIR, 'init'), initramfs, files=files)
    image = os.path.join(work_dir, 'disk.img')
    make_image(image, FS_BYTES)
    guest = Guest(os.path.join(GUEST_DIR, 'vmlinuz'), initramfs, disk_arguments(image, 'files'),
                  {'test': 'numa'}, machine(nodes))
    try:
        guest.wait_for(['DONE', 'BROKEN'], LIFE_SECONDS)
        guest.wait_exit(20)
    finally:
        if guest.running():
            guest.kill()
    return guest.lines


def figures_of(lines, name):
    """The figures of a race, and the exit code of its launcher; None for what is not there."""
    figures = code = None
    for line in lines:
        words = line.split(' ', 2)
        if words[:2] == ['FIGURES', name] and len(words) == 3:
            try:
                figures = json.loads(words[2])
            except ValueError:
                figures = None
        elif words[:2] == ['END', name] and len(words) == 3 and words[2].isdigit():
            code = int(words[2])
    return figures, code


def shares_of(race, figures):
    """The least shares of all instances and phases, and the phases that show none."""
    first = figures['instances'][0]['memory_nodes']
    shares = {'code_local': [], 'anonymous_local': [], 'code_on_first': []}
    unknown = []
    for instance in figures['instances']:
        for phase in instance['phases']:
            place = phase['placement']
            if not place or place['code']['bytes'] < MIN_CODE_BYTES:
                unknown.append(f"{instance['number']}, {phase['phase']}")
                continue
            local = instance['memory_nodes']
            anonymous = share_on([place[kind] for kind in ('heap', 'anonymous', 'stacks')], local)
            if anonymous is None:
                unknown.append(f"{instance['number']}, {phase['phase']}")
                continue
            shares['anonymous_local'].append(anonymous)
            # Of a shared program the first instance has its own share anyway.
            if race.text != 'shared' or instance['number'] > 0:
                shares['code_local'].append(share_on([place['code']], local))
                shares['code_on_first'].append(share_on([place['code']], first))
    least = {name: min(values) for name, values in shares.items() if values}
    if shares['code_local']:
        least['code_local_mean'] = sum(shares['code_local']) / len(shares['code_local'])
    return least, unknown


class Judge:
    """Says what holds and what does not, and counts it."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        # Of those that failed, the ones that are no claim about a share.
        self.faults = 0

    def check(self, what, fault, is_share=False):
        if fault:
            self.failed += 1
            self.faults += 0 if is_share else 1
            print(f'FAIL {what}: {fault}')
        else:
            self.passed += 1
            print(f'PASS {what}')

    def check_share(self, what, least, name, aim):
        share = least.get(name)
        fault = 'not known' if share is None else '' if share >= aim else f'{share:.4f}'
        self.check(what, fault, is_share=share is not None)

    def check_race(self, guest, race, figures, code):
        """Whether memory lies where it must; the shares that were found, None without figures."""
        what = f'{guest}, {race.name}'
        self.check(f'{what}: all phases of all instances verify',
                   '' if figures and code == 0 else f'the launcher ended with {code}')
        if not figures or code != 0:
            return None
        try:
            groups = [instance['memory_nodes'] for instance in figures['instances']]
            phases = [phase['phase'] for phase in figures['instances'][0]['phases']]
            least, unknown = shares_of(race, figures)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            self.check(f'{what}: the figures can be read', repr(error))
            return None
        self.check(f'{what}: an instance on each of {race.groups}',
                   '' if groups == race.groups else f'they are on {groups}')
        self.check(f'{what}: every instance shows its memory in every phase',
                   f'instance and phase: {unknown}' if unknown or phases != list(PHASES) else '')
        self.check_share(f'{what}: anonymous memory is local', least, 'anonymous_local', 0.99)
        if race.text == 'shared':
            self.check_share(f'{what}: the text of the later instances lies where the first one '
                             'runs', least, 'code_on_first', 1)
        else:
            self.check_share(f'{what}: all text is local', least, 'code_local', 1)
        return least if len(least) == 4 else None


def judge_guest(nodes, races, stores, lines, judge):
    """What is to be kept of a guest: the shares, and whether nothing but shares can be wrong."""
    faults_before = judge.faults
    result = {'nodes': nodes, 'races': {}}
    for race in races:
        figures, code = figures_of(lines, race.name)
        shares = judge.check_race(f'{nodes} nodes', race, figures, code)
        if shares:
            result['races'][race.name] = {'text': race.text, 'groups': len(race.groups), **shares}
    for store in stores:
        check_store(judge, f'{nodes} nodes', store, lines)
    judge.check(f'{nodes} nodes: the guest came to its end',
                '' if 'DONE' in lines else 'it did not')
    result['ok'] = judge.faults == faults_before
    return result


def run_guest(nodes, judge, work_dir):
    """Boots one guest and judges it; what is to be kept of it."""
    races = races_of(nodes)
    # Four nodes show nothing that two and eight do not.
    stores = stores_of(nodes, CPUS) if nodes in (2, 8) else []
    lines = boot(nodes, races, stores, work_dir)
    failed_before = judge.failed
    result = judge_guest(nodes, races, stores, lines, judge)
    if judge.failed > failed_before:
        print('the last lines of the guest:')
        print('\n'.join('    ' + line[:200] for line in lines[-40:]))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--nodes', default='2,4,8', help='of the guests')
    parser.add_argument('--json', help='where the shares that were found go')
    flags = parser.parse_args()
    node_counts = [int(count) for count in flags.nodes.split(',')]
    if any(count not in (2, 4, 8) for count in node_counts):
        parser.error('guests have 2, 4 or 8 nodes')
    check_machine(programs=['numactl'], built=['bin/race_static', 'bin/numa_static'])
    judge = Judge()
    work_dir = make_work_dir('numa')
    try:
        guests = [run_guest(count, judge, work_dir) for count in node_counts]
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)
    if flags.json:
        with open(flags.json, 'w', encoding='utf-8') as file:
            json.dump({'guests': guests}, file, indent=2)
    print(f'{judge.passed} passed, {judge.failed} failed')
    sys.exit(0 if judge.failed == 0 and judge.passed > 0 else 1)


if __name__ == '__main__':
    main()

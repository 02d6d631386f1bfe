"""Disks as a power cut may leave them, put together from QEMU's log of a guest's writes.

A device with a volatile cache promises that writes which were complete before a flush survive once
the flush is complete. Later writes may survive wholly, in part or not at all. So a disk is built
from the writes before the last flush and a random part of those between that flush and the cut.

The log ("blklogwrites", the format of Linux' dm-log-writes): sectors of 512 bytes; the first has
magic, version, number of entries and sector size; every entry is one sector with sector, count,
flags and length, followed by its data. QEMU logs a write or a flush when it is complete and before
the guest hears of it.
"""

import mmap
import random
import struct

MAGIC = 0x6a736677736872
SECTOR_BYTES = 512
FLUSH, FUA, DISCARD = 1, 2, 4
FS_SUPERBLOCK_END = 4096


class Write:
    """A write: its offset on the disk, and the offset of its data in the log."""

    def __init__(self, offset, size, at, flags):
        self.offset, self.size, self.at, self.flags = offset, size, at, flags


class WriteLog:
    def __init__(self, path):
        with open(path, 'rb') as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, version, count, sector_bytes = struct.unpack_from('<QQQI', self._map, 0)
        if (magic, version, sector_bytes) != (MAGIC, 1, SECTOR_BYTES):
            raise ValueError(f'{path} is no log of writes')
        self.entries = []
        at = SECTOR_BYTES
        for _ in range(count):
            sector, sectors, flags, _ = struct.unpack_from('<QQQQ', self._map, at)
            if flags & ~(FLUSH | FUA | DISCARD):
                raise ValueError(f'{path}: entry {len(self.entries)} has flags {flags:#x}')
            at += SECTOR_BYTES
            size = 0 if flags & (FLUSH | DISCARD) else sectors * SECTOR_BYTES
            self.entries.append(Write(sector * SECTOR_BYTES, size, at, flags))
            at += size
        if at > len(self._map):
            raise ValueError(f'{path} is cut short')

    def data(self, write):
        return self._map[write.at:write.at + write.size]

    def is_flush(self, index):
        return bool(self.entries[index].flags & FLUSH)

    def is_forced(self, write):
        """True for writes that were durable by themselves (FUA).

        QEMU's NVMe drops the FUA bit. But the file system makes such writes only for the journal's
        commit blocks and superblock, which are recognised by their content.
        """
        if write.flags & FUA:
            return True
        if write.size < SECTOR_BYTES:
            return False
        magic, kind = struct.unpack_from('>II', self._map, write.at)
        return magic == 0xc03b3998 and kind in (2, 3, 4)


class Outcome:
    """Counts the fates of the writes after the last flush: kept, torn or lost."""

    def __init__(self):
        self.point = self.last_flush = self.kept = self.torn = self.lost = 0

    def __str__(self):
        return (f'entry {self.point}, {self.point - self.last_flush} after its last flush: '
                f'{self.kept} kept, {self.torn} torn, {self.lost} lost')


def _tear(data, rng):
    """The surviving sectors of a write, as (offset, bytes)."""
    sectors = len(data) // SECTOR_BYTES
    if rng.random() < 0.5:
        cut = rng.randrange(sectors + 1)
        kept = range(cut) if rng.random() < 0.5 else range(cut, sectors)
    else:
        kept = [i for i in range(sectors) if rng.random() < 0.5]
    return [(i * SECTOR_BYTES, data[i * SECTOR_BYTES:(i + 1) * SECTOR_BYTES]) for i in kept]


def cut_disk(log, image, fs_bytes, point, rng):
    """Applies the writes that survive a cut right after entry number `point` to `image`, a copy of
    the disk from before the log.

    The ledger's writes, behind the file system, are always applied: they show what the guest knew
    at that moment. All data that they depend on was flushed, and so logged, before them.
    """
    outcome = Outcome()
    outcome.point = point
    outcome.last_flush = max((i for i in range(point + 1) if log.is_flush(i)), default=-1)
    keep = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
    tear = rng.choice([0.0, 0.2, 0.5])
    with open(image, 'r+b') as disk:
        for index, write in enumerate(log.entries[:point + 1]):
            if write.size == 0:
                continue
            data = log.data(write)
            pieces = [(0, data)]
            certain = (index < outcome.last_flush or write.offset >= fs_bytes
                       or log.is_forced(write))
            if not certain:
                if rng.random() >= keep:
                    pieces = []
                    outcome.lost += 1
                # Devices do not tear blocks of 4 KiB that ext4 relies on and does not journal.
                elif write.offset >= FS_SUPERBLOCK_END and rng.random() < tear:
                    pieces = _tear(data, rng)
                    outcome.torn += 1
                else:
                    outcome.kept += 1
            for offset, piece in pieces:
                disk.seek(write.offset + offset)
                disk.write(piece)
    return outcome


def random_point(log, fs_bytes, rng: random.Random):
    """An entry of the log; often one from before the guest's first note in its ledger, which is
    when the store had just been opened and verified."""
    opened = next((i for i, write in enumerate(log.entries) if write.offset >= fs_bytes), 0)
    if opened > 0 and rng.random() < 0.3:
        return rng.randrange(opened)
    return rng.randrange(len(log.entries))

"""The rows of a store as a PyTorch data set that gathers a batch in one call.

One process at a time can have a store open. So a loader has no worker, or one that lives as long
as the loader:

    DataLoader(Rows(path, ids), batch_size=4096)
    DataLoader(Rows(path, ids), batch_size=4096, num_workers=1, persistent_workers=True)

The first gathers in the process itself. In the second the worker opens the store, and no other
process may have it open. One call keeps all reads of a batch in flight, so that more workers would
not read faster. To gather batches ahead without a worker, gather them in a thread: the call
releases the interpreter's lock.

A sampler of batches keeps each batch one tensor, of shape (n, 1024), and no row is copied again:

    DataLoader(rows, sampler=BatchSampler(RandomSampler(rows), 4096, False), batch_size=None)
"""
import numpy
import torch

import engine_race

WIDTH = 1024


class Rows(torch.utils.data.Dataset):
    """Opened where it is first used: a store may not be used across a fork."""

    def __init__(self, path, ids, **options):
        self._path, self._ids, self._options = path, numpy.asarray(ids), options
        self._store = None

    def __len__(self):
        return len(self._ids)

    def __getitems__(self, indices):
        return list(self._gather(indices))

    def _gather(self, indices):
        if self._store is None:
            worker = torch.utils.data.get_worker_info()
            if worker is not None and worker.num_workers > 1:
                raise RuntimeError(f"{worker.num_workers} workers cannot all open the store: take "
                                   "num_workers=0, or 1 with persistent_workers=True")
            self._store = engine_race.open(self._path, **self._options)
        rows = numpy.empty((len(indices), WIDTH), numpy.float32)
        return torch.from_numpy(self._store.read_many(self._ids[indices], out=rows))

    def __getitem__(self, index):
        """One row, or one tensor of the rows of a list of indices."""
        return self._gather(index) if isinstance(index, list) else self._gather([index])[0]

    def __getstate__(self):
        # For workers that are spawned: the store stays here.
        return {**self.__dict__, "_store": None}

    def close(self):
        if self._store is not None:
            self._store.close()
            self._store = None

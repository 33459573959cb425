# SPDX-License-Identifier: Apache-2.0
"""Processes that are sampled in turn on the same cores, and the probe that tells when those were disturbed."""

import bisect
import json
import os
import pathlib
import select
import signal
import subprocess
import tempfile

import report

OPEN_TIMEOUT, RUN_TIMEOUT = 600, 300  # seconds
PATIENCE = 3  # times as many rounds as are wanted, when samples are disturbed
MOST_RUNS = 50  # of one sample


class Failed(Exception):
    """A process ended, hung or told an error; the text says which."""


def spawn(command, cores, **options):
    """A process that runs on those cores from its first instruction."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        return subprocess.Popen([str(word) for word in command], text=True, stdout=subprocess.PIPE, **options)
    finally:
        os.sched_setaffinity(0, own)


class Child:
    """A runtime that answers lines. It is stopped (SIGSTOP) while it is not asked, so that threads which spin or run on do not
    disturb another's sample. It leads a process group of its own: if this process dies, the kernel hangs it up and continues it.
    """

    def __init__(self, command, cores):
        self.log = tempfile.TemporaryFile()
        self.process = spawn(command, cores, stdin=subprocess.PIPE, stderr=self.log, process_group=0)
        try:
            self.opening = self._answer(OPEN_TIMEOUT)
            if "error" in self.opening:
                raise Failed(self.opening["error"])
        except BaseException:
            self.close()
            raise
        self.peak_bytes = max(0, self._peak_bytes() - self.opening.get("resident_before", 0))
        self._signal(signal.SIGSTOP)

    def run(self, n):
        """[(wall ms, CPU ms)] of n runs."""
        self._signal(signal.SIGCONT)
        try:
            self.process.stdin.write(f"run {n}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._end()) from None
        times = self._answer(RUN_TIMEOUT)
        self._signal(signal.SIGSTOP)
        return times

    def close(self):
        self.process.kill()
        self.process.communicate()
        self.log.close()

    def _signal(self, number):
        os.killpg(self.process.pid, number)

    def _answer(self, timeout):
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            raise Failed(f"no answer within {timeout} s")
        line = self.process.stdout.readline()
        try:
            return json.loads(line)
        except ValueError:
            raise Failed(self._end() if line == "" else f"answered: {line.strip()[:100]}") from None

    def _peak_bytes(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0

    def _end(self):
        code = self.process.wait(10)
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"{how}: {lines[-1][:200]}" if lines else how


class Probe:
    """GFLOP/s of fused multiply-adds on every core that samples use, the slowest of them."""

    def __init__(self, tool, cores, ms=8):
        self.command, self.cores, self.speeds = [tool, ms], sorted(cores), []

    @property
    def best(self):
        """What one in twenty reaches: one that a clock mistook, or a moment of a higher one, disturbs no sample."""
        return self.speeds[-1 - len(self.speeds) // 20] if self.speeds else 0.0

    def __call__(self):
        running = [spawn(self.command, {core}) for core in self.cores]
        speed = min(float(process.communicate()[0]) for process in running)
        bisect.insort(self.speeds, speed)
        return speed


def sample_in_turn(children, first_ms, options, probe, say, failed):
    """{name: samples}: rounds in turn, until each child has options.rounds undisturbed ones of about options.sample_ms. One that
    fails is told to failed(name, error), closed, and taken out of children."""
    samples = {name: [] for name in children}
    runs = {name: max(1, min(MOST_RUNS, int(options.sample_ms / ms))) if ms > 0 else MOST_RUNS for name, ms in first_ms.items()}
    before = probe()
    for attempt in range(PATIENCE * options.rounds):
        least = min(report.count_clean(samples[name], probe.best) for name in children)
        if least >= options.rounds:
            break
        turn = list(children)
        for name in turn[attempt % len(turn):] + turn[:attempt % len(turn)]:
            say(f"round {least + 1} of {options.rounds}: {name}")
            try:
                times = children[name].run(1 + runs[name])[1:]  # one run to have the caches back
            except Failed as error:
                failed(name, error)
                children.pop(name).close()
                continue
            after = probe()
            wall, cpu = zip(*times)
            samples[name].append({"probe": min(before, after), "wall": wall, "cpu": cpu})
            before = after
    return samples

# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ on the models that they are written for, which come from PyPI; skipped without a network."""

import pathlib
import re
import subprocess
import sys
import tempfile

from harness import BUILD, OPFUSE, ROOT, Tally, last_line

MODELS = BUILD / "models"
FACE = [MODELS / "face" / "centerface.onnx", MODELS / "face" / "picture.ppm"]
OCR = [MODELS / "ocr" / name for name in ("detector.onnx", "recogniser.onnx", "keys.txt", "picture.ppm")]
VOICE = [MODELS / "voice" / "silero_vad.onnx", MODELS / "voice" / "sound.wav"]


def run(name, *arguments):
    return subprocess.run([OPFUSE.parent / name, *arguments], capture_output=True, text=True, timeout=120, check=False)


def lines_of(name, *arguments):
    done = run(name, *arguments)
    assert done.returncode == 0, f"exit code {done.returncode}: {last_line(done.stderr)}"
    return done.stdout.splitlines()


def check_face(folder):
    """One astronaut looks at us: where, and the picture has a frame there."""
    found = lines_of("face", *FACE, folder / "result.ppm")
    numbers = [list(map(int, re.findall(r"\d+", line)[:4])) for line in found[:-1]]
    assert found[-1] == "1 face" and len(numbers) == 1, found
    wrong = [abs(a - b) for a, b in zip(numbers[0], (182, 58, 88, 120))]
    assert max(wrong) <= 2, found[0]
    left, top, width, height = numbers[0]
    picture = (folder / "result.ppm").read_bytes()
    at = len(picture) - 3 * 512 * 512 + 3 * (512 * (top + height // 2) + left)
    assert picture[at : at + 3] == b"\x00\xff\x00", "no frame is drawn"


def check_no_face(folder):
    (folder / "blank.ppm").write_bytes(b"P6\n# nobody\n70 33\n255\n" + bytes(3 * 70 * 33))
    assert lines_of("face", FACE[0], folder / "blank.ppm") == ["0 faces"]


def check_ocr(_):
    sys.path.insert(0, str(ROOT / "examples" / "ocr"))
    import get

    found = [line.split("\t") for line in lines_of("ocr", *OCR)]
    assert [text for text, _ in found] == list(get.LINES), found
    assert all(float(score) > 0.9 for _, score in found), found


def check_voice(_):
    """The passages as the sound was made, on two frames."""
    found = lines_of("voice", *VOICE)
    passages = [list(map(float, re.findall(r"[\d.]+", line))) for line in found[:-1]]
    assert found[-1].startswith("2 passages") and len(passages) == 2, found
    for passage, made in zip(passages, ((1.0, 3.0), (4.5, 5.7))):
        assert all(abs(a - b) < 0.11 for a, b in zip(passage, made)), found


def check_silence(folder):
    sound = VOICE[1].read_bytes()
    (folder / "silence.wav").write_bytes(sound[:44] + bytes(2 * 16000))
    assert lines_of("voice", VOICE[0], folder / "silence.wav") == ["0 passages in 1.00 s"]


def check_refused(folder):
    """Wrong usage is 2, a bad file 1 with a line that says so, and never a crash."""
    for name in ("face", "ocr", "voice"):
        assert run(name).returncode == 2, f"{name} without arguments"
    (folder / "bad").write_bytes(b"P6\n9 9\n255\nRIFF")
    bad = folder / "bad"
    for name, files in (("face", FACE), ("ocr", OCR), ("voice", VOICE)):
        for i in range(len(files)):
            for wrong in (bad, folder / "absent"):
                done = run(name, *files[:i], wrong, *files[i + 1 :])
                assert done.returncode == 1 and done.stderr, f"{name} with {wrong.name} instead of {files[i].name}: exit code {done.returncode}"
    for name, files in (("face", (VOICE[0], FACE[1])), ("ocr", (FACE[0], *OCR[1:])), ("voice", (FACE[0], VOICE[1]))):
        done = run(name, *files)
        assert done.returncode == 1 and done.stderr, f"{name} with a model of another kind: exit code {done.returncode}"


def fetch(name):
    """The reason if the model cannot be had."""
    done = subprocess.run([sys.executable, ROOT / "examples" / name / "get.py"], capture_output=True, text=True, timeout=600, check=False)
    return None if done.returncode == 0 else last_line(done.stderr)


def main():
    tally = Tally()
    for name in ("face", "ocr", "voice"):
        reason = fetch(name)
        if reason:
            tally.skip("examples", f"{name}: {reason}")
            tally.finish()
    for check in (check_face, check_no_face, check_ocr, check_voice, check_silence, check_refused):
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(pathlib.Path(folder))
                tally.result(check.__name__)
            except (AssertionError, OSError) as error:
                tally.result(check.__name__, error)
    tally.finish()


if __name__ == "__main__":
    main()

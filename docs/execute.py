"""Run notebooks in place and store their outputs: all of them, or the ones named.

`jupyter nbconvert --execute` would do, but it runs cells marked `#| eval: false` too."""
import base64
import io
import os
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image, ImageChops, ImageStat

ROUGHNESS = 4.  # of 255, root mean square: what a picture may lose by having fewer colours
WHITE = 250     # of 255: as white as paper


class Client(NotebookClient):
    "Leaves cells marked `#| eval: false` as they are."
    async def async_execute_cell(self, cell, *args, **kwargs):
        if re.search(r"^#\|\s*eval:\s*false", cell.source, flags=re.M): return cell
        return await super().async_execute_cell(cell, *args, **kwargs)

def smaller(png):
    """The picture in as few colours as show no difference: half of the bytes; and its width on a
    page, half of its pixels, for screens that have two where others have one."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    for colours in (24, 32, 48, 64, 128, 256):
        fewer = picture.quantize(colours, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        off = ImageStat.Stat(ImageChops.difference(picture, fewer.convert("RGB"))).rms
        if max(off) <= ROUGHNESS: break
    fewer.putpalette([255 if v >= WHITE else v for v in fewer.getpalette()])
    with io.BytesIO() as out:
        fewer.save(out, "png", optimize=True)
        return base64.b64encode(out.getvalue()).decode(), picture.width//2

def execute(path):
    """Run the notebook at `path` in its own folder. A failing cell raises, and leaves the file as
    it was."""
    nb = nbformat.read(path, as_version=4)
    Client(nb, timeout=None, kernel_name="python3", record_timing=False, store_widget_state=False,
    coalesce_streams=True,
           extra_arguments=["--log-level=ERROR"],  # the kernel's own: it warns of local connections
           resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in nb.cells:
        # folded, as the text before it
        if "solution" in cell.metadata.get("tags", []):
            cell.metadata["jupyter"] = {"source_hidden": True, "outputs_hidden": True}
        # its model ends with the kernel: the picture stays
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
            # a picture that says in words what it shows: display(figure, metadata={"alt": ...})
            if alt := output.get("metadata", {}).pop("alt", None):
                cell.metadata.setdefault("mystnb", {}).setdefault("image", {})["alt"] = alt
    for output in (output for cell in nb.cells for output in cell.get("outputs", [])):
        if "image/png" in output.get("data", {}):
            output.data["image/png"], width = smaller(output.data["image/png"])
            output.metadata["image/png"] = {"width": width}
    nbformat.write(nb, path)

if __name__ == "__main__":
    os.environ["DP_SADDLE_PROGRESS"] = "0"   # no line about how far a cell is in its output
    found = sorted(Path("nbs").rglob("*.ipynb"))
    named = [Path(name) for name in sys.argv[1:]]
    for path in named or [p for p in found
                          if not any(part.startswith(("_", ".")) for part in p.parts)]:
        start = time.time()
        execute(path)
        print(f"{path}: {time.time() - start:.1f} s", flush=True)

"""The build hook of hatchling: compiles the CPU kernels when a wheel or an editable one is made."""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelBuildHook(BuildHookInterface):
    """Puts the libraries into the wheel, which then is for one platform; pure without them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile them in the source tree; an editable installation finds them there."""
        del version
        build = runpy.run_path(str(Path(self.root, "wholedoc", "kernels", "build.py")))
        built = build["compile_kernels"](build["LIBRARIES"], self.app.display_warning)
        if built:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
            build_data["artifacts"].append("/wholedoc/kernels/lib/*.so")

"""How a page of the manual shows a view: a film that plays where it is seen, and behind a link the
view itself. Without JavaScript the film has controls, and the link leads to a page.
"""

import html
import re
from pathlib import Path

from jaxmbd.viz.page import VIEWER, viewer


def embedded(name: str, title: str, static: str) -> str:
    """Lines of Markdown that show an entry of the gallery.

    Args:
        name: Of the mechanism.
        title: What is seen, for readers who cannot see it.
        static: The path of `_static` from the page.
    """
    place, title = f"{static}/gallery/{name}", html.escape(title)
    size = 'width="480" height="320"'
    return f"""```{{raw}} html
<figure class="view" data-view="{place}.html">
<video src="{place}.webm" poster="{place}.jpg" aria-label="{title}, moving" {size}
 preload="none" controls loop muted playsinline></video>
<figcaption><a href="{place}.html">Turn it in 3D</a></figcaption>
</figure>
```
"""


def thumbnails(entries: dict[str, str], static: str, page: str) -> str:
    """Lines of Markdown with small pictures that lead to the gallery.

    Args:
        entries: Titles by name, as the gallery's headings have them.
        static: The path of `_static` from the page.
        page: That of the gallery.
    """
    links = []
    for name, title in entries.items():
        heading = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        picture = f'<img src="{static}/gallery/{name}.jpg" alt="" width="480" height="320">'
        link = f'<a href="{page}#{heading}">{picture}<span>{html.escape(title)}</span></a>'
        links.append(link.replace("<img", '<img loading="lazy"'))
    return '```{raw} html\n<div class="views">\n' + "\n".join(links) + "\n</div>\n```\n"


def prepare(static: Path) -> None:
    """Put the code of the viewer beside the views."""
    (static / "gallery" / VIEWER).write_text(viewer(), encoding="utf-8")

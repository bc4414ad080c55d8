"""The page's part of the console: keys of the name confirmation, and a sentence where a notebook has no kernel of it.

Rules: ipywidgets have no event for Escape, and send the text of a field only when it is left. So a script in the cell's output
presses the console's own buttons: Enter in the field confirms, Escape leaves the plan; the field's text is sent first. It does
nothing else, asks no address, and is the same for every console. JupyterLab without `drlib notebook` saves no state of widgets:
without their kernel it says "model not found", which is replaced by what to do.
"""

from typing import Any, Final

from drlib.ui.saved_widgets import NOT_LIVE

CONFIRM, DO, LEAVE = "drlib-console-confirm", "drlib-console-do", "drlib-console-leave"
SCRIPT: Final = """(() => {
  if (window.drlibConsole) return;
  window.drlibConsole = true;
  window.addEventListener('keydown', event => {
    const row = event.target instanceof Element ? event.target.closest('.CONFIRM') : null;
    const enter = event.key === 'Enter' && row !== null && event.target.matches('input');
    if (row === null || event.isComposing || !(enter || event.key === 'Escape')) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.repeat) return;
    if (enter) event.target.dispatchEvent(new Event('change', {bubbles: true}));
    row.querySelector(enter ? '.DO' : '.LEAVE').click();
  }, true);
  const tell = () => document.querySelectorAll('.jp-OutputArea-output.jupyter-widgets').forEach(node => {
    if (node.childElementCount === 0 && node.textContent.startsWith('Error displaying widget'))
      node.textContent = 'NOT_LIVE';
  });
  tell();
  new MutationObserver(tell).observe(document.body, {childList: true, subtree: true});
})();"""


def button(label: str, tooltip: str) -> Any:
    """Without an icon: its glyph would be read as a part of the name."""
    import ipywidgets

    return ipywidgets.Button(description=label, tooltip=tooltip, layout={"width": "auto"})


def display_controls(box: Any) -> None:
    """Display widgets, and what the page does for them. In a kernel only."""
    from IPython.display import Javascript, display

    display(box)  # type: ignore[no-untyped-call]
    script = SCRIPT
    for name, value in (("CONFIRM", CONFIRM), ("LEAVE", LEAVE), ("DO", DO), ("NOT_LIVE", NOT_LIVE)):
        script = script.replace(name, value)
    display(Javascript(script))  # type: ignore[no-untyped-call]

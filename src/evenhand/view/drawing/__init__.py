"""Theme and drawing of charts, in colours that are distinguishable for colour-blind readers and in grey print.

A chart is described by data: rows with dots and bars (``RowChart``), or a Vega-Lite specification (``Spec``). A
notebook gets either as an Altair chart (``to_altair``), which it shows and exports as usual. A page draws rows with its
own templates, at the width it has, and gets specifications as SVG, drawn beforehand by Vega (``to_svg``): it then needs
no script and no network to open, and prints as it looks. Every colour has a counterpart for dark pages
(``dark_stylesheet``).
"""

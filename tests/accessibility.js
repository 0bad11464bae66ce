// What is wrong with a page: names of controls, headings, tables, references, contrast. Evaluated in it.
() => {
  const found = [];
  const visible = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest("[aria-hidden=true]");
  const text = (element) => (element?.textContent ?? "").trim();
  const name = (element) => {
    const label = element.getAttribute("aria-label");
    if (label) return label;
    const by = element.getAttribute("aria-labelledby");
    if (by) return by.split(" ").map((id) => text(document.getElementById(id))).join(" ").trim();
    if (element.labels?.length) return text(element.labels[0]);
    return text(element) || [...element.querySelectorAll("img")].map((image) => image.alt).join(" ").trim();
  };
  const said = (element) => `${element.tagName.toLowerCase()}.${element.className?.baseVal ?? element.className} "${text(element).slice(0, 40)}"`;
  // Names of whatever can be used or is a landmark.
  const needs = "a[href], button, input, select, textarea, summary, [tabindex='0'], [role=slider], [role=meter], [role=region], nav, section, form[role], table + *";
  for (const element of document.querySelectorAll(needs)) {
    if (visible(element) && !element.matches("section:not([aria-labelledby]), table + *") && !name(element)) found.push(`no name: ${said(element)}`);
  }
  for (const image of document.images) if (!image.hasAttribute("alt")) found.push("a picture without alt");
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((one, i) => ids.indexOf(one) !== i))) found.push(`two elements are called ${id}`);
  for (const element of document.querySelectorAll("[aria-labelledby], [aria-describedby], label[for]")) {
    for (const id of [element.getAttribute("aria-labelledby"), element.getAttribute("aria-describedby"), element.htmlFor].filter(Boolean).flatMap((one) => one.split(" "))) {
      if (!document.getElementById(id)) found.push(`there is no ${id}`);
    }
  }
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    if (!visible(heading)) continue;
    const now = Number(heading.tagName[1]);
    if (now > level + 1) found.push(`after a heading of level ${level} comes ${said(heading)}`);
    level = now;
  }
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  if (!document.documentElement.lang) found.push("no language");
  for (const cell of document.querySelectorAll("th")) if (!cell.scope) found.push(`no scope: ${said(cell)}`);
  for (const slider of document.querySelectorAll("[role=slider], [role=meter]")) {
    for (const one of ["aria-valuemin", "aria-valuemax", "aria-valuenow", "aria-valuetext"]) if (!slider.hasAttribute(one)) found.push(`${said(slider)} has no ${one}`);
  }
  // Contrast of every text with what lies behind it.
  const parts = (color) => color.match(/[\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = parts(color).map((one) => (one / 255 <= 0.04045 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if ((parts(color)[3] ?? 1) === 1) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const ratio = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  let least = Infinity, looked = 0;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest("script, noscript, option, .skip")) continue;
    const style = getComputedStyle(element);
    const drawn = element instanceof SVGElement;
    const now = ratio(drawn ? style.fill : style.color, behind(element));
    looked++;
    least = Math.min(least, now);
    if (now < 4.5) found.push(`contrast ${now.toFixed(2)}: ${said(element)}`);
  }
  // Edges of what can be used, and what charts consist of, against what lies behind them.
  for (const element of document.querySelectorAll("input, select, button")) {
    if (!visible(element)) continue;
    const style = getComputedStyle(element);
    const edge = Math.max(ratio(style.borderTopColor, behind(element.parentElement)), ratio(style.backgroundColor.startsWith("rgba(0, 0, 0, 0") ? behind(element.parentElement) : style.backgroundColor, behind(element.parentElement)));
    if (element.type !== "checkbox" && edge < 3) found.push(`edge ${edge.toFixed(2)}: ${said(element)}`);
  }
  for (const [kind, paint] of [[".with", "stroke"], [".without", "stroke"], [".tick", "stroke"], [".own", "fill"], [".over", "stroke"], [".asked", "fill"], [".meter span", "backgroundColor"]]) {
    const element = document.querySelector(`main ${kind}`);
    if (element && ratio(getComputedStyle(element)[paint], behind(element.parentElement)) < 3) found.push(`${kind} is hardly seen`);
  }
  return { found, least, looked };
}

"use strict";
// Contents, sorting and filtering. Everything is readable without this script, which makes no requests: it only moves and
// hides what the page already holds.
(() => {
  const make = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  // The list of contents: closed where it would push the answers off the first screen, its current section marked.
  const contents = document.querySelector(".contents");
  const narrow = matchMedia("(max-width: 74rem)");
  const fit = () => { contents.open = !narrow.matches; };
  fit();
  narrow.addEventListener("change", fit);
  const links = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  contents.querySelector("a").setAttribute("aria-current", "location");
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "location");
    }
  }, { rootMargin: "-15% 0px -80% 0px" });
  document.querySelectorAll("main > section").forEach((section) => observer.observe(section));

  // A cell's number is the point of its interval, at full precision where the page has it; NaN where there is none.
  const numberOf = (cell) => {
    const exact = cell.querySelector("data");
    if (exact) return Number(exact.value);
    const found = /^[+\-\u2212]?\d[\d,]*(\.\d+)?/.exec(cell.textContent.trim());
    return found ? Number(found[0].replaceAll(",", "").replace("\u2212", "-")) : NaN;
  };

  // Rows stay below the title of their part. Cells without a number come last in either direction.
  const sort = (body, rows, place, numeric, direction) => {
    const keys = new Map(rows.map((row) => {
      const cell = row.cells[place];
      return [row, !cell ? "" : numeric ? numberOf(cell) : cell.textContent.trim()];
    }));
    const compare = (one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      if (!numeric) return direction * String(a).localeCompare(String(b), undefined, { numeric: true });
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
      return direction * (a - b);
    };
    const parts = [[]];
    for (const row of rows) {
      if (row.classList.contains("part")) parts.push([]);
      parts.at(-1).push(row);
    }
    for (const part of parts) {
      const titles = part.filter((row) => row.classList.contains("part"));
      const others = part.filter((row) => !row.classList.contains("part"));
      body.append(...titles, ...(direction ? others.sort(compare) : others));
    }
  };

  const addFilter = (table, rows) => {
    const box = make("input", { type: "search", autocomplete: "off" });
    const count = make("span", { role: "status" });
    box.addEventListener("input", () => {
      const wanted = box.value.trim().toLowerCase();
      let shown = 0;
      let title = null;
      for (const row of rows) {
        if (row.classList.contains("part")) {
          title = row;
          row.hidden = wanted !== "";
          continue;
        }
        row.hidden = ![...row.cells].some((cell) => cell.textContent.toLowerCase().includes(wanted));
        if (row.hidden) continue;
        shown += 1;
        if (title) title.hidden = false;
      }
      const all = rows.filter((row) => !row.classList.contains("part")).length;
      count.textContent = wanted ? `${shown} of ${all} rows` : "";
    });
    table.parentElement.before(make("p", { className: "filter" }, make("label", {}, "Filter rows ", box), " ", count));
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      if (head.tagName !== "TH") return;
      const button = make("button", { type: "button", className: "sort" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")] ?? "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        if (next !== "none") head.setAttribute("aria-sort", next);
        const direction = { ascending: 1, descending: -1, none: 0 }[next];
        sort(body, rows, place, head.classList.contains("number"), direction);
      });
    });
    if (rows.length > 8) addFilter(table, rows);
  }
})();

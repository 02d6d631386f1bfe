// Looks at a page of bin/report in a browser and returns what is wrong with it, as a list of texts.
(() => {
  const faults = [];
  const say = (where, what) => { if (faults.length < 60) faults.push(`${where}: ${what}`); };
  const numbers = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const isClear = (colour) =>
    colour === 'none' || colour === 'transparent' || numbers(colour)[3] === 0;
  const luminance = (colour) => {
    const [r, g, b] = numbers(colour).slice(0, 3).map((held) => {
      const share = held / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const background = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!isClear(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const inside = (box, frame, slack) =>
    box.left >= frame.left - slack && box.right <= frame.right + slack &&
    box.top >= frame.top - slack && box.bottom <= frame.bottom + slack;
  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 &&
                            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;

  const lookAtChart = (svg, where) => {
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / svg.viewBox.baseVal.width;
    const plate = getComputedStyle(svg.querySelector('.plate')).fill;
    const marks = [...svg.querySelectorAll('.mark')];
    if (marks.length === 0) say(where, 'is empty: it has no marks');
    for (const mark of marks) {
      const box = mark.getBoundingClientRect();
      if (!(box.width + box.height > 0)) say(where, `a mark has no size: ${mark.outerHTML}`);
      else if (!inside(box, frame, 1)) say(where, `a mark lies outside: ${mark.outerHTML}`);
      const style = getComputedStyle(mark);
      const colour = isClear(style.fill) || mark.classList.contains('unfinished') ? style.stroke
                                                                                  : style.fill;
      if (style.visibility !== 'visible' || Number(style.opacity) < 1) {
        say(where, 'a mark is hidden');
      }
      if (mark.classList.contains('line') && !isClear(style.fill)) say(where, 'a line is filled');
      if (isClear(colour)) say(where, `a mark has no colour: ${mark.outerHTML}`);
      else if (contrast(colour, plate) < 3) say(where, `a mark of ${colour} on ${plate} is faint`);
    }
    const texts = [...svg.querySelectorAll('text')];
    const boxes = texts.map((text) => text.getBoundingClientRect());
    texts.forEach((text, i) => {
      const name = `"${text.textContent}"`;
      const style = getComputedStyle(text);
      if (!(boxes[i].width > 0)) say(where, `the text ${name} has no size`);
      if (!inside(boxes[i], frame, 1)) say(where, `the text ${name} lies outside`);
      if (parseFloat(style.fontSize) * scale < 9.5) say(where, `the text ${name} is too small`);
      if (contrast(style.fill, plate) < 4.5) say(where, `the text ${name} is faint`);
      for (let j = 0; j < i; ++j) {
        if (overlap(boxes[i], boxes[j])) {
          say(where, `the texts ${name} and "${texts[j].textContent}" overlap`);
        }
      }
    });
    for (const name of (svg.getAttribute('aria-labelledby') || 'none').split(' ')) {
      if (document.querySelectorAll(`[id="${name}"]`).length !== 1) say(where, `no one id ${name}`);
    }
  };

  const root = document.documentElement;
  if (root.tagName === 'svg') {
    lookAtChart(root, 'svg');
    return faults;
  }
  for (const details of document.querySelectorAll('details')) details.open = true;
  if (root.scrollWidth > root.clientWidth) {
    say('page', `is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);
  }
  const figures = [...document.querySelectorAll('figure')];
  if (figures.length === 0) say('page', 'has no chart');
  for (const figure of figures) {
    const shown = [...figure.querySelectorAll('svg')].filter((svg) => svg.checkVisibility());
    if (shown.length !== 1) say(figure.id, `shows ${shown.length} pictures`);
    for (const svg of shown) lookAtChart(svg, figure.id);
    if (figure.querySelectorAll('td').length === 0) say(figure.id, 'has no table');
  }
  for (const node of document.querySelectorAll('body *')) {
    if (node.closest('svg') || !node.checkVisibility()) continue;
    const box = node.getBoundingClientRect();
    const words = [...node.childNodes].some((held) => held.nodeType === 3 && held.data.trim());
    if (!words) continue;
    const name = `${node.tagName.toLowerCase()} "${node.textContent.slice(0, 40)}"`;
    if (contrast(getComputedStyle(node).color, background(node)) < 4.5) say(name, 'is faint');
    if (!node.closest('.scroll') && box.right > root.clientWidth + 1) say(name, 'lies outside');
  }
  return faults;
})()

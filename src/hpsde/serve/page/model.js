// A policy evaluated in the page, as policy/acting.py does it: options b + w' phi(s), and the gate that chooses.

function makeModel(data) {
  const a = {};
  for (const [name, value] of Object.entries(data)) if (value && value.base64 !== undefined) a[name] = unpack(value);
  const S = a.context_centre.length, D = a.parameter_centre.length, O = a.mean_returns.length, F = a.w.length / (O * D) || 0;
  const features = makeFeatures(data.features), gate = { gp: gpGate, softmax: softmaxGate, marginal: marginalGate }[data.gate.kind](data.gate, O, D, S);
  const standardContext = (s) => s.map((v, i) => (v - a.context_centre[i]) / a.context_scale[i]);
  function standardMeans(phi) {
    // [O][D] in standard units, within the bounds.
    return Array.from({ length: O }, (_, o) => {
      const mean = new Float64Array(D);
      for (let d = 0; d < D; d++) {
        let v = a.b[o * D + d];
        for (let f = 0; f < F; f++) v += phi[f] * a.w[(o * F + f) * D + d];
        mean[d] = Math.min(Math.max(v, a.low[d]), a.high[d]);
      }
      return mean;
    });
  }
  function raw(mean) {
    const found = new Float64Array(D);
    for (let d = 0; d < D; d++) {
      let v = mean[d];
      if (data.turned) { v = 0; for (let k = 0; k < D; k++) v += mean[k] * a.parameter_axes[k * D + d]; }
      found[d] = Math.min(Math.max(v * a.parameter_scale[d] + a.parameter_centre[d], a.parameter_low[d]), a.parameter_high[d]);
    }
    return found;
  }
  function level(s) {
    let v = a.return_level[0];
    s.forEach((x, i) => { v += a.return_level[1 + i] * x + a.return_level[1 + S + i] * x * x; });
    return v;
  }
  const allowed = Array.from(a.allowed, (v, o) => (v ? o : -1)).filter((o) => o >= 0);
  return {
    at(context) {
      // Every option in a context: parameters, expected return, its standard deviation; and which is chosen.
      const phi = features(context), s = standardContext(context), means = standardMeans(phi), moments = gate.moments && gate.moments(means, s);
      const options = means.map((mean, o) => {
        if (!moments) return { parameters: raw(mean), expected_return: a.mean_returns[o], expected_deviation: null };
        const [m, d] = moments[o];
        return { parameters: raw(mean), expected_return: gate.returned(m) + level(s), expected_deviation: 0.5 * (gate.returned(m + d) - gate.returned(m - d)) };
      });
      return { options, option: gate.choose(means, s, phi, allowed, moments) };
    },
    line(context, axis, xs) {
      // Every option's parameters along one context number, and which is chosen.
      const means = [], chosen = [];
      for (const x of xs) {
        const there = Array.from(context);
        there[axis] = x;
        const phi = features(there), standard = standardMeans(phi);
        means.push(standard.map(raw));
        chosen.push(gate.choose(standard, standardContext(there), phi, allowed, null));
      }
      return { xs, means, chosen };
    },
  };
}

function makeFeatures(data) {
  if (data.kind !== "squared-exponential") {
    const centre = unpack(data.centre), scale = unpack(data.scale);
    return (context) => {
      const u = Array.from(context, (v, i) => (v - centre[i]) / scale[i]);
      if (data.kind === "linear") return u;
      const found = u.slice();
      for (let j = 0; j < u.length; j++) for (let k = j; k < u.length; k++) found.push(u[j] * u[k]);
      if (data.kind === "quadratic") return found;
      for (let j = 0; j < u.length; j++) for (let k = j; k < u.length; k++) for (let i = 0; i <= j; i++) found.push(u[i] * u[j] * u[k]);
      return found;
    };
  }
  const centres = unpack(data.centres), bandwidth = unpack(data.bandwidth), trend = unpack(data.trend), S = bandwidth.length, J = S ? centres.length / S : 0;
  const middle = Array.from({ length: S }, (_, i) => { let v = 0; for (let j = 0; j < J; j++) v += centres[j * S + i]; return v / J; });
  return (context) => {
    const found = [];
    for (let j = 0; j < J; j++) {
      let d2 = 0;
      for (let i = 0; i < S; i++) d2 += ((context[i] - centres[j * S + i]) / bandwidth[i]) ** 2;
      found.push(data.height * Math.exp(-0.5 * d2));
    }
    for (let i = 0; i < trend.length; i++) found.push(trend[i] * (context[i] - middle[i]));
    return found;
  };
}

const highest = (places, value) => places.reduce((best, o) => (value(o) > value(best) ? o : best), places[0]);

function softmaxGate(data) {
  const theta = unpack(data.theta), G = data.theta.shape[1];
  const value = (o, phi) => { let v = theta[data.kept[o] * G + G - 1]; for (let f = 0; f < G - 1; f++) v += theta[data.kept[o] * G + f] * phi[f]; return v; };
  return { choose: (means, s, phi, allowed) => highest(allowed, (o) => value(o, phi)) };
}

function marginalGate(data, O, D, S) {
  const share = unpack(data.log_share), mean = unpack(data.mean), white = unpack(data.whitening), volume = unpack(data.log_volume);
  const value = (o, s) => {
    const slot = data.kept[o];
    let v = share[slot] - volume[slot];
    for (let i = 0; i < S; i++) {
      let w = 0;
      for (let k = 0; k < S; k++) w += white[(slot * S + i) * S + k] * (s[k] - mean[slot * S + k]);
      v -= 0.5 * w * w;
    }
    return v;
  };
  return { choose: (means, s, phi, allowed) => highest(allowed, (o) => value(o, s)) };
}

function gpGate(data, O, D, S) {
  // A Gaussian process over points A [xi, s]: mean m + k' beta, variance prior - k' K^-1 k.
  const points = unpack(data.points), beta = unpack(data.beta), lengths = unpack(data.lengths), centre = unpack(data.centre), axes = unpack(data.axes);
  const root = unpack(data.root), e = unpack(data.variances), U = unpack(data.directions), best = unpack(data.best)[0];
  const returns = unpack(data.warp_returns), scores = unpack(data.warp_scores), E = lengths.length, P = beta.length, V = O ? e.length / O : 0;
  const scaled = (mean, s) => {
    const z = [...mean, ...s], found = new Float64Array(E);
    for (let i = 0; i < E; i++) {
      let v = z[i];
      if (axes.length) { v = 0; for (let k = 0; k < D + S; k++) v += axes[i * (D + S) + k] * z[k]; }
      found[i] = (v - centre[i]) / lengths[i];
    }
    return found;
  };
  const correlation = (d2) => { let v = 0; for (let j = 0; j < data.tau.length; j++) v += data.weights[j] * Math.exp((-0.5 / data.tau[j]) * d2); return v; };
  function covariances(at) {
    const k = new Float64Array(P);
    for (let p = 0; p < P; p++) {
      let d2 = 0;
      for (let i = 0; i < E; i++) d2 += (at[i] - points[p * E + i]) ** 2;
      k[p] = data.signal * correlation(d2);
    }
    return k;
  }
  function turned(o, at) {
    // The first V numbers of a point along the directions of an option's covariance.
    const found = new Float64Array(E);
    for (let i = 0; i < E; i++) {
      if (i >= V) { found[i] = at[i]; continue; }
      for (let k = 0; k < V; k++) found[i] += at[k] * U[(o * V + k) * V + i];
    }
    return found;
  }
  const turnedPoints = Array.from({ length: data.cautious ? 0 : O }, (_, o) => {
    const found = new Float64Array(P * E);
    for (let p = 0; p < P; p++) found.set(turned(o, points.subarray(p * E, (p + 1) * E)), p * E);
    return found;
  });
  function expectations(o, at) {
    // The covariance of the expected return over an option's parameters with every point, and its prior variance.
    const k = new Float64Array(P), mu = turned(o, at), x = turnedPoints[o];
    let prior = 0;
    data.tau.forEach((tau, j) => {
      let volume = 1, wide = 1;
      for (let d = 0; d < V; d++) { volume *= 1 + e[o * V + d] / tau; wide *= 1 + (2 / tau) * e[o * V + d]; }
      const height = data.weights[j] * data.signal * volume ** -0.5;
      prior += data.weights[j] * data.signal * wide ** -0.5;
      for (let p = 0; p < P; p++) {
        let d2 = 0;
        for (let i = 0; i < E; i++) d2 += (mu[i] - x[p * E + i]) ** 2 / (i < V ? tau + e[o * V + i] : tau);
        k[p] += height * Math.exp(-0.5 * d2);
      }
    });
    return [k, prior];
  }
  const meanOf = (k) => { let v = 0; for (let p = 0; p < P; p++) v += k[p] * beta[p]; return data.mean + v; };
  let factor = null;
  function cholesky() {
    // L with L L' = K + noise, row by row; NaN where there is none.
    const L = Array.from({ length: P }, (_, i) => new Float64Array(i + 1));
    for (let i = 0; i < P; i++) {
      const row = covariances(points.subarray(i * E, (i + 1) * E)), own = L[i];
      row[i] += data.jitter * data.signal;
      if (root.length) for (let j = 0; j < P; j++) row[j] *= root[i] * root[j];
      row[i] += root.length ? 1 : data.noise;
      for (let j = 0; j <= i; j++) {
        const other = L[j];
        let v = row[j];
        for (let k = 0; k < j; k++) v -= own[k] * other[k];
        own[j] = j < i ? v / other[j] : Math.sqrt(v);
      }
    }
    return L;
  }
  function known(k) {
    // k' K^-1 k = |L^-1 k|^2.
    factor = factor || cholesky();
    const y = new Float64Array(P);
    let total = 0;
    for (let i = 0; i < P; i++) {
      const row = factor[i];
      let v = root.length ? root[i] * k[i] : k[i];
      for (let j = 0; j < i; j++) v -= row[j] * y[j];
      y[i] = v / row[i];
      total += y[i] * y[i];
    }
    return total;
  }
  const deviationOf = (k, prior) => Math.sqrt(Math.max(prior - known(k), 0));
  function largestDeviation(k) {
    // A bound that costs nothing: as if only the point that tells most were known.
    let told = 0;
    for (let p = 0; p < P; p++) told = Math.max(told, k[p] ** 2 / (data.signal * (1 + data.jitter) + (root.length ? root[p] ** -2 : data.noise)));
    return Math.sqrt(Math.max(data.signal - told, 0));
  }
  function moments(means, s) {
    return means.map((mean, o) => {
      const at = scaled(mean, s), [k, prior] = data.cautious ? [covariances(at), data.signal] : expectations(o, at);
      const m = meanOf(k);
      return [data.cautious ? Math.min(m, best) : m, deviationOf(k, prior)];
    });
  }
  function choose(means, s, phi, allowed, found) {
    if (allowed.length === 1) return allowed[0];
    if (found) return highest(allowed, (o) => (data.cautious ? found[o][0] - found[o][1] : found[o][0]));
    if (!data.cautious) { const m = means.map((mean, o) => meanOf(expectations(o, scaled(mean, s))[0])); return highest(allowed, (o) => m[o]); }
    // Deviations are computed where bounds leave a doubt.
    const k = means.map((mean) => covariances(scaled(mean, s))), most = k.map((each) => Math.min(meanOf(each), best));
    const least = Math.max(...allowed.map((o) => most[o] - largestDeviation(k[o]))), open = allowed.filter((o) => !(most[o] < least));
    return open.length === 1 ? open[0] : highest(open, memo((o) => most[o] - deviationOf(k[o], data.signal)));
  }
  function returned(score) {
    // The return with a score: linear between knots, and beyond them along the last segment.
    const n = scores.length;
    let low = 0, high = n - 1;
    while (high - low > 1) { const m = (low + high) >> 1; if (scores[m] <= score) low = m; else high = m; }
    return returns[low] + ((returns[high] - returns[low]) / (scores[high] - scores[low])) * (score - scores[low]);
  }
  return { moments, choose, returned };
}

function memo(of) {
  const known = new Map();
  return (o) => { if (!known.has(o)) known.set(o, of(o)); return known.get(o); };
}

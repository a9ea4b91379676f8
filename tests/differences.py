"""What PyTorch and MindSpore do differently where nothing is said: the rows that a live test runs and a page shows.

Expressions know `nn`, `F` and `ops` of their framework and the arrays of `tests/live/test_differences.py`. A layer is
applied to `given`, an optimizer makes two steps; `look` names another way to look at the result.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """One row: both defaults with their values, and MindSpore's spelling of PyTorch's.

    `means` is what MindSpore's default does, spelled in PyTorch with MindSpore's number; empty where the value is the
    result itself.
    """

    what: str
    chinese: str
    torch: str
    torch_value: str
    mindspore: str
    mindspore_value: str
    same: str
    means: str = ""
    look: str = "values"
    given: str = "x"


D = Difference
# The titles of the sections are anchors that diagnoses point to (`capabilities.diagnosis.text.DEFAULTS`).
SECTIONS: dict[tuple[str, str], tuple[Difference, ...]] = {
    ("Activations", "激活函数"): (
        D("LeakyReLU: slope", "LeakyReLU：负半轴斜率", "nn.LeakyReLU()", "0.01", "nn.LeakyReLU()", "0.2",
          "nn.LeakyReLU(0.01)", "nn.LeakyReLU(0.2)"),
        D("`leaky_relu`: slope", "`leaky_relu`：负半轴斜率", "F.leaky_relu(x)", "0.01", "ops.leaky_relu(x)", "0.2",
          "ops.leaky_relu(x, 0.01)", "F.leaky_relu(x, 0.2)"),
        D("GELU: formula", "GELU：公式", "nn.GELU()", "erf", "nn.GELU()", "tanh",
          "nn.GELU(approximate=False)", "nn.GELU('tanh')"),
        D("RReLU in evaluation: slopes of 100 elements", "RReLU 推理时：100 个元素的斜率种数", "nn.RReLU().eval()", "1",
          "nn.RReLU().set_train(False)", "100", "nn.LeakyReLU(11 / 48)", look="slopes"),
        D("Softmax of four axes: axis", "四维输入的 Softmax：轴", "nn.Softmax()", "1", "nn.Softmax()", "-1",
          "nn.Softmax(1)", "nn.Softmax(-1)"),
        D("Softmax of three axes: axis", "三维输入的 Softmax：轴", "nn.Softmax()", "0", "nn.Softmax()", "-1",
          "nn.Softmax(0)", "nn.Softmax(-1)", given="s"),
        D("LogSoftmax: axis", "LogSoftmax：轴", "nn.LogSoftmax()", "1", "nn.LogSoftmax()", "-1",
          "nn.LogSoftmax(1)", "nn.LogSoftmax(-1)"),
        D("`softmin`: axis", "`softmin`：轴", "F.softmin(x)", "1", "ops.softmin(x)", "-1",
          "ops.softmin(x, 1)", "F.softmin(x, -1)"),
        D("`xlogy` of 0 and 0", "0 与 0 的 `xlogy`", "torch.xlogy(zero, zero)", "0", "ops.xlogy(zero, zero)", "nan",
          "ops.where(zero == 0, zero, ops.xlogy(zero, zero))"),
    ),
    ("Normalisation", "归一化"): (
        D("LayerNorm: epsilon", "LayerNorm：epsilon", "nn.LayerNorm(5)", "1e-5", "nn.LayerNorm((5,))", "1e-7",
          "nn.LayerNorm((5,), epsilon=1e-5)", "nn.LayerNorm(5, eps=1e-7)", given="small"),
        D("LayerNorm of one number", "LayerNorm 只给一个数", "nn.LayerNorm(6)", "(2, 3, 6, 6)", "nn.LayerNorm(6)",
          "TypeError", "nn.LayerNorm((6,))", look="shape"),
        D("LayerNorm over two axes", "在两个轴上做 LayerNorm", "nn.LayerNorm((6, 6))", "(2, 3, 6, 6)",
          "nn.LayerNorm((6, 6))", "RuntimeError",
          "nn.LayerNorm((6, 6), begin_norm_axis=2, begin_params_axis=2, epsilon=1e-5)"),
        D("BatchNorm: what `momentum` weighs", "BatchNorm：`momentum` 的含义", "nn.BatchNorm2d(3, momentum=0.1)",
          "0.9 old + 0.1 new", "nn.BatchNorm2d(3, momentum=0.1)", "0.1 old + 0.9 new",
          "nn.BatchNorm2d(3, momentum=0.9)", "nn.BatchNorm2d(3, momentum=0.9)", look="moving"),
        D("A new BatchNorm: mode", "新建的 BatchNorm：模式", "nn.BatchNorm2d(3)", "train", "nn.BatchNorm2d(3)", "eval",
          "nn.BatchNorm2d(3).set_train()", "nn.BatchNorm2d(3).eval()"),
        D("InstanceNorm: parameters", "InstanceNorm：参数个数", "nn.InstanceNorm2d(3)", "0", "nn.InstanceNorm2d(3)",
          "2", "nn.InstanceNorm2d(3, affine=False)", look="parameters"),
        D("LRN of 5: channels in the sum", "LRN 取 5：求和的通道数", "nn.LocalResponseNorm(5)", "5", "nn.LRN(5)", "11",
          "nn.LRN(2, alpha=1e-4 / 5, beta=0.75)", "nn.LocalResponseNorm(11, alpha=11, beta=0.5)"),
        D("L2 norm: axis", "L2 归一化：轴", "F.normalize(m)", "1", "ops.L2Normalize()(m)", "0",
          "ops.L2Normalize(1)(m)", "F.normalize(m, dim=0)"),
        D("L2 norm: least norm", "L2 归一化：范数下限", "F.normalize(small, dim=0)", "1e-12",
          "ops.L2Normalize()(small)", "1e-2", "ops.L2Normalize(epsilon=1e-12**2)(small)",
          "F.normalize(small, dim=0, eps=1e-2)"),
    ),
    ("Dropout", "Dropout"): (
        D("Dropout: its first argument", "Dropout：第一个参数的含义", "nn.Dropout(0.1)", "0.1 dropped",
          "nn.Dropout(0.1)", "0.9 dropped", "nn.Dropout(p=0.1)", "nn.Dropout(0.9)", look="zeros"),
        D("A new Dropout: mode", "新建的 Dropout：模式", "nn.Dropout(0.5).training", "True",
          "nn.Dropout(p=0.5).training", "False", "nn.Dropout(p=0.5).set_train().training"),
    ),
    ("Convolution and pooling", "卷积与池化"): (
        D("Conv2d: padding and bias", "Conv2d：填充与偏置", "nn.Conv2d(3, 4, 3)", "no padding, bias",
          "nn.Conv2d(3, 4, 3)", "padding to the same size, no bias",
          "nn.Conv2d(3, 4, 3, pad_mode='valid', has_bias=True)", "nn.Conv2d(3, 4, 3, padding='same', bias=False)"),
        D("Conv1d: padding and bias", "Conv1d：填充与偏置", "nn.Conv1d(2, 4, 3)", "no padding, bias",
          "nn.Conv1d(2, 4, 3)", "padding to the same size, no bias",
          "nn.Conv1d(2, 4, 3, pad_mode='valid', has_bias=True)", "nn.Conv1d(2, 4, 3, padding='same', bias=False)",
          given="s"),
        D("Conv3d: size of 6 × 6 × 6 after kernel 3", "Conv3d：6 × 6 × 6 经核 3 后的尺寸", "nn.Conv3d(1, 1, 3)",
          "(1, 1, 4, 4, 4)", "nn.Conv3d(1, 1, 3)", "(1, 1, 6, 6, 6)",
          "nn.Conv3d(1, 1, 3, pad_mode='valid', has_bias=True)", look="shape", given="volume"),
        D("Conv2d: parameters", "Conv2d：参数个数", "nn.Conv2d(3, 4, 3)", "2", "nn.Conv2d(3, 4, 3)", "1",
          "nn.Conv2d(3, 4, 3, has_bias=True)", look="parameters"),
        D("Conv2d with `padding=1`", "Conv2d 加 `padding=1`", "nn.Conv2d(3, 4, 3, padding=1)", "(2, 4, 6, 6)",
          "nn.Conv2d(3, 4, 3, padding=1)", "ValueError",
          "nn.Conv2d(3, 4, 3, pad_mode='pad', padding=1, has_bias=True)"),
        D("Stride 2: where `'same'` pads", "步长 2：`'same'` 填充的位置", "nn.Conv2d(3, 4, 3, stride=2, padding=1)",
          "both ends", "nn.Conv2d(3, 4, 3, stride=2, has_bias=True)", "the end only",
          "nn.Conv2d(3, 4, 3, stride=2, pad_mode='pad', padding=1, has_bias=True)",
          "nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 4, 3, stride=2))"),
        D("Transposed Conv2d, stride 2: size of 6 × 6", "转置 Conv2d，步长 2：6 × 6 的输出尺寸",
          "nn.ConvTranspose2d(3, 4, 3, stride=2)", "(2, 4, 13, 13)", "nn.Conv2dTranspose(3, 4, 3, stride=2)",
          "(2, 4, 12, 12)", "nn.Conv2dTranspose(3, 4, 3, stride=2, pad_mode='valid', has_bias=True)", look="shape"),
        D("MaxPool2d: stride", "MaxPool2d：步长", "nn.MaxPool2d(2)", "2", "nn.MaxPool2d(2)", "1",
          "nn.MaxPool2d(2, 2)", "nn.MaxPool2d(2, 1)"),
        D("MaxPool1d: stride", "MaxPool1d：步长", "nn.MaxPool1d(2)", "2", "nn.MaxPool1d(2)", "1",
          "nn.MaxPool1d(2, 2)", "nn.MaxPool1d(2, 1)", given="s"),
        D("AvgPool2d: stride", "AvgPool2d：步长", "nn.AvgPool2d(2)", "2", "nn.AvgPool2d(2)", "1",
          "nn.AvgPool2d(2, 2)", "nn.AvgPool2d(2, 1)"),
        D("`avg_pool2d`: stride", "`avg_pool2d`：步长", "F.avg_pool2d(x, 2)", "2", "ops.avg_pool2d(x, 2)", "1",
          "ops.avg_pool2d(x, 2, 2)", "F.avg_pool2d(x, 2, 1)"),
        D("`avg_pool1d`: stride", "`avg_pool1d`：步长", "F.avg_pool1d(s, 2)", "2", "ops.avg_pool1d(s, 2)", "1",
          "ops.avg_pool1d(s, 2, 2)", "F.avg_pool1d(s, 2, 1)"),
        D("AvgPool2d: padding in the mean", "AvgPool2d：均值是否计入填充", "nn.AvgPool2d(3, 1, padding=1)", "counted",
          "nn.AvgPool2d(3, 1, pad_mode='same')", "not counted", "nn.AvgPool2d(3, 1, pad_mode='pad', padding=1)",
          "nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)"),
        D("MaxPool2d with `padding=1`", "MaxPool2d 加 `padding=1`", "nn.MaxPool2d(3, 2, padding=1)", "(2, 3, 3, 3)",
          "nn.MaxPool2d(3, 2, padding=1)", "ValueError", "nn.MaxPool2d(3, 2, pad_mode='pad', padding=1)"),
        D("Resize by a factor", "按倍数缩放", "F.interpolate(x, scale_factor=2.0)", "(2, 3, 12, 12)",
          "ops.interpolate(x, scale_factor=2.0)", "ValueError",
          "ops.interpolate(x, scale_factor=2.0, recompute_scale_factor=True)"),
    ),
    ("First weights", "初始权重"): (
        D("Embedding: deviation", "Embedding：标准差", "nn.Embedding(1000, 50).weight", "1.0",
          "nn.Embedding(1000, 50).embedding_table", "0.01",
          "nn.Embedding(1000, 50, embedding_table=Normal(1.0)).embedding_table", look="deviation"),
        D("`normal`: deviation", "`normal`：标准差", "nn.init.normal_(torch.empty(300, 200))", "1.0",
          "initializer('normal', (300, 200)).init_data()", "0.01",
          "initializer(Normal(1.0), (300, 200)).init_data()", look="deviation"),
        D("Truncated normal: deviation", "截断正态：标准差", "nn.init.trunc_normal_(torch.empty(300, 200))", "0.9",
          "initializer('truncatedNormal', (300, 200)).init_data()", "0.01",
          "initializer(TruncatedNormal(1.0), (300, 200)).init_data()", look="deviation"),
    ),
    ("Losses", "损失函数"): (
        D("SmoothL1: reduction", "SmoothL1：归约方式", "nn.SmoothL1Loss()(m, 2 * m)", "'mean'",
          "nn.SmoothL1Loss()(m, 2 * m)", "'none'", "nn.SmoothL1Loss(reduction='mean')(m, 2 * m)",
          "nn.SmoothL1Loss(reduction='none')(m, 2 * m)"),
        D("`smooth_l1_loss`: reduction", "`smooth_l1_loss`：归约方式", "F.smooth_l1_loss(m, 2 * m)", "'mean'",
          "ops.smooth_l1_loss(m, 2 * m)", "'none'", "ops.smooth_l1_loss(m, 2 * m, reduction='mean')",
          "F.smooth_l1_loss(m, 2 * m, reduction='none')"),
        D("Cross entropy of int64 labels", "标签为 int64 的交叉熵", "nn.CrossEntropyLoss()(m, labels)", "1.4686",
          "nn.CrossEntropyLoss()(m, labels)", "TypeError", "nn.CrossEntropyLoss()(m, labels.astype(ms.int32))"),
        D("SoftmaxCrossEntropyWithLogits: labels", "SoftmaxCrossEntropyWithLogits：标签",
          "nn.CrossEntropyLoss()(m, labels)", "ids, mean",
          "nn.SoftmaxCrossEntropyWithLogits()(m, ops.one_hot(labels, 5).astype(ms.float32))",
          "one-hot, none",
          "nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction='mean')(m, labels.astype(ms.int32))",
          "nn.CrossEntropyLoss(reduction='none')(m, F.one_hot(labels, 5).float())"),
        D("Binary cross entropy: least logarithm", "二元交叉熵：对数下限", "F.binary_cross_entropy(0 * ones, ones)",
          "-100", "ops.binary_cross_entropy(0 * ones, ones)", "log(1e-12)",
          "-ops.clamp(ops.log(0 * ones), -100).mean()", "-torch.log(0 * ones + 1e-12).mean()"),
    ),
    ("Optimizers", "优化器"): (
        D("SGD: learning rate", "SGD：学习率", "optim.SGD(params)", "0.001", "nn.SGD(params)", "0.1",
          "nn.SGD(params, 0.001)", "optim.SGD(params, 0.1)"),
        D("SGD: weight decay of gamma and beta", "SGD：gamma、beta 的权重衰减",
          "optim.SGD(params, 0.1, weight_decay=0.1)", "yes", "nn.SGD(params, 0.1, weight_decay=0.1)", "no",
          "nn.SGD([{'params': params, 'weight_decay': 0.1}], 0.1)",
          "optim.SGD([{'params': params[0], 'weight_decay': 0}, {'params': params[1]}], 0.1, weight_decay=0.1)"),
        D("Momentum: weight decay of gamma and beta", "Momentum：gamma、beta 的权重衰减",
          "optim.SGD(params, 0.1, 0.9, weight_decay=0.1)", "yes", "nn.Momentum(params, 0.1, 0.9, weight_decay=0.1)",
          "no", "nn.Momentum([{'params': params, 'weight_decay': 0.1}], 0.1, 0.9)",
          "optim.SGD([{'params': params[0], 'weight_decay': 0}, {'params': params[1]}], 0.1, 0.9, weight_decay=0.1)"),
        D("Adam: weight decay of gamma and beta", "Adam：gamma、beta 的权重衰减",
          "optim.Adam(params, weight_decay=0.1)", "yes", "nn.Adam(params, weight_decay=0.1)", "no",
          "nn.Adam([{'params': params, 'weight_decay': 0.1}])",
          "optim.Adam([{'params': params[0], 'weight_decay': 0}, {'params': params[1]}], weight_decay=0.1)"),
        D("Momentum with Nesterov, on a CPU", "Nesterov 动量（CPU）",
          "optim.SGD(params, 0.1, 0.9, nesterov=True)", "used", "nn.Momentum(params, 0.1, 0.9, use_nesterov=True)",
          "ignored", "nn.SGD(params, 0.1, 0.9, nesterov=True)", "optim.SGD(params, 0.1, 0.9)"),
        D("AdamW: bias correction, decay, epsilon", "AdamW：偏差修正、衰减、epsilon", "optim.AdamW(params)",
          "yes, 0.01, 1e-8", "nn.AdamWeightDecay(params)", "no, 0, 1e-6",
          "experimental.optim.AdamW(params, weight_decay=0.01, eps=1e-8)",
          "by_hand(lambda p, g, m, v: p - 0.001 * m / (v**0.5 + 1e-6), "
          "lambda g, m, v: (0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2), 0, 0)"),
        D("RMSprop: rate, decay, first mean square", "RMSprop：学习率、衰减、均方初值", "optim.RMSprop(params)",
          "0.01, 0.99, 0", "nn.RMSProp(params)", "0.1, 0.9, 1",
          "experimental.optim.RMSprop(params, lr=0.01, alpha=0.99)",
          "by_hand(lambda p, g, s: p - 0.1 * g / s**0.5, lambda g, s: [0.9 * s + 0.1 * g**2], 1)"),
        D("Adagrad: rate, first sum", "Adagrad：学习率、累加初值", "optim.Adagrad(params)", "0.01, 0",
          "nn.Adagrad(params)", "0.001, 0.1", "experimental.optim.Adagrad(params, lr=0.01)",
          "by_hand(lambda p, g, s: p - 0.001 * g / s**0.5, lambda g, s: [s + g**2], 0.1)"),
        D("Adamax: learning rate", "Adamax：学习率", "optim.Adamax(params)", "0.002", "nn.AdaMax(params)", "0.001",
          "nn.AdaMax(params, 0.002)", "optim.Adamax(params, 0.001)"),
        D("Rprop: learning rate", "Rprop：学习率", "optim.Rprop(params)", "0.01", "nn.Rprop(params)", "0.1",
          "nn.Rprop(params, 0.01)", "optim.Rprop(params, 0.1)"),
        D("ASGD: learning rate", "ASGD：学习率", "optim.ASGD(params)", "0.01", "nn.ASGD(params)", "0.1",
          "nn.ASGD(params, 0.01)", "optim.ASGD(params, 0.1)"),
    ),
    ("Functions of tensors", "张量函数"): (
        D("`std`: divisor", "`std`：除数", "torch.std(m)", "n - 1", "ops.std(m)", "n", "ops.std(m, ddof=1)",
          "torch.std(m, correction=0)"),
        D("`var`: divisor", "`var`：除数", "torch.var(m)", "n - 1", "ops.var(m)", "n", "ops.var(m, ddof=1)",
          "torch.var(m, correction=0)"),
        D("`Tensor.std`: divisor", "`Tensor.std`：除数", "m.std()", "n - 1", "m.std()", "n", "m.std(ddof=1)",
          "m.std(correction=0)"),
        D("`median`: of what", "`median`：取值范围", "torch.median(m)", "all elements", "ops.median(m)",
          "the last axis, with places", "ops.median(m.reshape(-1))[0]", "tuple(torch.median(m, -1))"),
        D("`max` without an axis", "不给轴的 `max`", "torch.max(m)", "the value", "ops.max(m)", "(value, 0)",
          "ops.amax(m)", "(torch.max(m), torch.tensor(0))"),
        D("`norm` of order 2 of a matrix", "矩阵的 2 阶 `norm`", "torch.norm(m, 2)", "Frobenius", "ops.norm(m, 2)",
          "spectral", "ops.norm(m)", "torch.linalg.norm(m, 2)"),
        D("`mean` of int32", "int32 的 `mean`", "torch.mean(ints.float())", "-0.75", "ops.mean(ints)", "0",
          "ops.mean(ints.astype(ms.float32))"),
        D("`~` of int32", "int32 的 `~`", "~ints", "int32", "~ints", "bool", "ops.invert(ints)", look="dtype"),
        D("`>>` of int32", "int32 的 `>>`", "ints >> 1", "[-4 -2 1 2]", "ints >> 1", "TypeError",
          "ops.bitwise_right_shift(ints, 1)"),
        D("`gather`: elements or slices", "`gather`：取元素还是切片", "torch.gather(m, 1, index)", "(4, 2)",
          "ops.gather(m, index, 1)", "(4, 4, 2)", "ops.gather_elements(m, 1, index)", look="shape"),
        D("`meshgrid`: indexing", "`meshgrid`：索引方式", "torch.meshgrid(ints, ints)", "'ij'",
          "ops.meshgrid(ints, ints)", "'xy'", "ops.meshgrid(ints, ints, indexing='ij')",
          "torch.meshgrid(ints, ints, indexing='xy')"),
        D("`unique`: order", "`unique`：顺序", "torch.unique(labels)", "[0 1 2 3]", "ops.unique(labels)[0]",
          "[1 0 3 2]", "ops.unique(labels)[0].sort()[0]"),
        D("`multinomial`: distinct of 50 drawn of 50", "`multinomial`：50 取 50 的不同个数",
          "torch.multinomial(ones, 50)", "True", "ops.multinomial(ones, 50)", "False",
          "ops.multinomial(ones, 50, replacement=False)", look="distinct"),
        D("`bernoulli` of zeros: any ones", "全 0 的 `bernoulli`：是否有 1", "torch.bernoulli(0 * ones)", "False",
          "ops.bernoulli(0 * ones)", "True", "ops.bernoulli(0 * ones, 0 * ones)", look="any"),
        D("`svd`: first of its results", "`svd`：第一个结果", "torch.linalg.svd(m)[0]", "(4, 4)", "ops.svd(m)[0]",
          "(4,)", "ops.svd(m)[1]", look="shape"),
        D("`size`", "`size`", "m.size()", "(4, 5)", "m.size", "20", "m.shape", look="result"),
    ),
    ("Data types and data", "数据类型与数据集"): (
        D("`argmin`: type", "`argmin`：类型", "torch.argmin(m, 1)", "int64", "ops.argmin(m, 1)", "int32",
          "ops.argmin(m, 1).astype(ms.int64)", look="dtype"),
        D("`topk`: type of places", "`topk`：下标类型", "torch.topk(m, 2)[1]", "int64", "ops.topk(m, 2)[1]", "int32",
          "ops.topk(m, 2)[1].astype(ms.int64)", look="dtype"),
        D("`sort`: type of places", "`sort`：下标类型", "torch.sort(m)[1]", "int64", "ops.sort(m)[1]", "int32",
          "ops.sort(m)[1].astype(ms.int64)", look="dtype"),
        D("`cumsum` of int32: type", "int32 的 `cumsum`：类型", "torch.cumsum(ints, 0)", "int64",
          "ops.cumsum(ints, 0)", "int32", "ops.cumsum(ints, 0, ms.int64)", look="dtype"),
        D("`bincount`: type", "`bincount`：类型", "torch.bincount(labels)", "int64", "ops.bincount(labels)",
          "float32", "ops.bincount(labels).astype(ms.int64)", look="dtype"),
        D("`Tensor` of whole numbers: type", "整数列表的 `Tensor`：类型", "torch.Tensor([1, 2])", "float32",
          "ms.Tensor([1, 2])", "int64", "ms.Tensor([1, 2], ms.float32)", look="dtype"),
        D("A data set: shuffled", "数据集：是否打乱", "torch.utils.data.DataLoader(range(100))", "False",
          "GeneratorDataset(range(100), ['n'])", "True", "GeneratorDataset(range(100), ['n'], shuffle=False)",
          look="shuffled"),
    ),
}  # fmt: skip

# What people suspect and what is the same, as run: (PyTorch, MindSpore, what it is applied to).
SAME: tuple[tuple[str, str, str], ...] = (
    ("nn.LSTM(4, 3)", "nn.LSTM(4, 3)", "s"),
    ("nn.GRU(4, 3)", "nn.GRU(4, 3)", "s"),
    ("nn.RNN(4, 3)", "nn.RNN(4, 3)", "s"),
    ("nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)", "nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)", "s"),
    ("nn.GroupNorm(1, 3)", "nn.GroupNorm(1, 3)", "x"),
    ("nn.PReLU()", "nn.PReLU()", "x"),
    ("F.gelu(x)", "ops.gelu(x)", "x"),
    ("F.unfold(x, 3)", "ops.unfold(x, 3)", "x"),
    ("F.max_pool2d(x, 2)", "ops.max_pool2d(x, 2)", "x"),
    ("F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)", "ops.avg_pool2d(x, 3, 2, 1, ceil_mode=True)", "x"),
    ("F.interpolate(x, (9, 9), mode='bilinear')", "ops.interpolate(x, (9, 9), mode='bilinear')", "x"),
    ("F.grid_sample(x, grid)", "ops.grid_sample(x, grid)", "x"),
    ("nn.HuberLoss()(m, 2 * m)", "nn.HuberLoss()(m, 2 * m)", "m"),
    ("optim.Adam(params)", "nn.Adam(params)", ""),
    ("optim.SGD(params, 0.1, 0.9, dampening=0.1)", "nn.SGD(params, 0.1, 0.9, dampening=0.1)", ""),
    ("ints / 2", "ints / 2", ""),
    ("ints // 2", "ints // 2", ""),
    ("ints % -3", "ints % -3", ""),
    ("torch.round(m * 2.5)", "ops.round(m * 2.5)", ""),
    ("torch.argmax(ints)", "ops.argmax(ints)", ""),
)

# Values that are words, as the Chinese page has them.
CHINESE_VALUES = {
    "0.9 old + 0.1 new": "0.9 旧 + 0.1 新",
    "0.1 old + 0.9 new": "0.1 旧 + 0.9 新",
    "train": "训练",
    "eval": "推理",
    "0.1 dropped": "丢弃 0.1",
    "0.9 dropped": "丢弃 0.9",
    "no padding, bias": "不填充，有偏置",
    "padding to the same size, no bias": "填充到相同尺寸，无偏置",
    "both ends": "两端",
    "the end only": "仅末端",
    "counted": "计入",
    "not counted": "不计入",
    "ids, mean": "类别号，均值",
    "one-hot, none": "独热，不归约",
    "yes": "有",
    "no": "无",
    "used": "生效",
    "ignored": "被忽略",
    "yes, 0.01, 1e-8": "有，0.01，1e-8",
    "no, 0, 1e-6": "无，0，1e-6",
    "all elements": "全部元素",
    "the last axis, with places": "最后一个轴，并带下标",
    "the value": "数值",
    "(value, 0)": "（数值，0）",
}


def page_tables(chinese: bool) -> dict[str, str]:
    """The table below each heading of the page, and the list of what is the same, in Markdown."""
    same = "在 MindSpore 中写出 PyTorch 的行为" if chinese else "PyTorch's, in MindSpore"
    titles = ("", "PyTorch", "MindSpore", same)
    head = f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n"
    tables = {}
    for headings, rows in SECTIONS.items():
        cells = []
        for row in rows:
            defaults = ((row.torch, row.torch_value), (row.mindspore, row.mindspore_value))
            said = [f"`{code}`: {CHINESE_VALUES.get(value, value) if chinese else value}" for code, value in defaults]
            cells.append((row.chinese if chinese else row.what, *said, f"`{row.same}`"))
        tables[headings[chinese]] = head + "".join(f"| {' | '.join(line)} |\n" for line in cells)
    alike = "".join(f"* `{theirs}`" + f", `{ours}`" * (theirs != ours) + "\n" for theirs, ours, _ in SAME)
    return {**tables, "相同的部分" if chinese else "The same": alike}

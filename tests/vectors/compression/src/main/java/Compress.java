import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.Compressor;
import org.apache.rocketmq.common.compression.CompressorFactory;

/** Has the official client's compressors compress two bodies, at the level of its producer. */
public class Compress {
    static final int LEVEL = 5;

    public static void main(String[] args) throws Exception {
        for (CompressionType type : CompressionType.values()) {
            Compressor compressor = CompressorFactory.getCompressor(type);
            String name = type.name().toLowerCase();
            Files.write(Path.of(args[0], name + "-short.bin"), compressor.compress(body(200), LEVEL));
            // Longer than a block of Zstandard.
            Files.write(Path.of(args[0], name + "-long.bin"), compressor.compress(body(4_000), LEVEL));
        }
    }

    static byte[] body(int lines) {
        StringBuilder text = new StringBuilder();
        for (int line = 0; line < lines; line++) {
            text.append("order ").append(line).append(" of customer ").append(line % 89);
            text.append(", amount ").append(line * 31 % 101).append('\n');
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }
}
